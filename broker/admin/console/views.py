"""Assembles the console of a broker or a gateway: the routes of its views, and its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from pydantic import BaseModel, Field

from ottla.broker.admin.console.cluster import cluster_router
from ottla.broker.admin.console.groups import groups_router
from ottla.broker.admin.console.page import PAGE, add_page
from ottla.broker.admin.console.producers import producers_router
from ottla.broker.admin.console.records import records_router
from ottla.broker.admin.console.requests import requests_router, watch
from ottla.broker.admin.console.schemas import Schemas, schemas_router
from ottla.broker.admin.console.topics import topics_router
from ottla.broker.admin.console.transactions import transactions_router
from ottla.broker.admin.console.wire import WireTap, wire_router
from ottla.broker.api.routes import broker_routes
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import NEEDS_A_BROKER, STEPS, FaultAction
from ottla.broker.net.gateway import Gateway
from ottla.broker.net.network import host_and_port
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode


class Choices(BaseModel):
    """Names to choose from in the console's form for a fault rule: actions, APIs and so on."""

    actions: list[str]
    apis: list[str]
    errors: list[str]
    steps: list[str]


class NodeView(BaseModel):
    """The data that the header of the console's page has in common for a broker and a gateway (Ottla's proxy in front of a cluster)."""

    address: str
    connections: int
    now_ms: int = Field(description="the node's time")
    ahead_ms: int = Field(description="by how much the clock was advanced")
    rules: int = Field(description="fault rules that are loaded")
    held: int = Field(description="held requests, responses and steps, which wait for their release")


class BrokerView(NodeView):
    """The data in the header of the console's page of a broker."""

    node_id: int
    cluster_id: str


class GatewayView(NodeView):
    """The data in the header of the console's page of a gateway."""

    cluster: list[str]


BROKER_VIEWS: Final = ("topics", "producers", "transactions", "groups", "wire", "faults", "cluster")
GATEWAY_VIEWS: Final = ("wire", "faults")
RECORDS: Final = frozenset({f"{PAGE}/records", f"{PAGE}/wire"})
"""Paths that return records, or what clients send. If the broker has an authorizer, reading them needs the token even with
`--admin-open-local`."""


def add_console(api: FastAPI, broker: Broker, faults: Faults, clock: MovableClock) -> frozenset[str]:
    """Add a broker's console to the admin port's API; return the URL paths that are served without the admin port's token."""
    requests, schemas = watch(broker, faults), Schemas()
    for router in (
        _of_the_broker(broker, faults, clock),
        topics_router(broker),
        records_router(broker, schemas),
        schemas_router(schemas),
        producers_router(broker, requests),
        transactions_router(broker),
        groups_router(broker),
        requests_router(requests),
        wire_router(WireTap(faults, clock)),
        cluster_router(broker),
    ):
        api.include_router(router, prefix=PAGE, tags=["console"])
    return add_page(api, "broker", BROKER_VIEWS)


def add_gateway_console(api: FastAPI, gateway: Gateway, clock: MovableClock) -> frozenset[str]:
    """Add the console of a gateway (Ottla's proxy in front of a cluster) to the admin port's API; return the URL paths that are served
    without the admin port's token."""
    for router in (_of_the_gateway(gateway, clock), wire_router(WireTap(gateway.faults, clock))):
        api.include_router(router, prefix=PAGE, tags=["console"])
    return add_page(api, "gateway", GATEWAY_VIEWS)


def _of_the_broker(broker: Broker, faults: Faults, clock: MovableClock) -> APIRouter:
    router = APIRouter()

    @router.get("/broker")
    async def this_broker() -> BrokerView:
        """Identity, address and clock of this broker, and whether faults are loaded."""
        return BrokerView(
            node_id=broker.settings.node_id,
            cluster_id=broker.services.cluster_id,
            address=host_and_port(*broker.address),
            connections=broker.connection_count,
            **_counts(faults, clock),
        )

    @router.get("/choices")
    async def choices() -> Choices:
        """Values for the form that creates a fault rule, and for the filter of the wire log."""
        return _choices(FaultAction, broker_routes(), STEPS)

    return router


def _of_the_gateway(gateway: Gateway, clock: MovableClock) -> APIRouter:
    router = APIRouter()

    @router.get("/gateway")
    async def this_gateway() -> GatewayView:
        """Cluster, address and clock of this gateway, and whether faults are loaded."""
        return GatewayView(
            cluster=[host_and_port(*each) for each in gateway.settings.cluster],
            address=host_and_port(gateway.settings.host, gateway.ports[0]),
            connections=gateway.connections.clients,
            **_counts(gateway.faults, clock),
        )

    @router.get("/choices")
    async def choices() -> Choices:
        """Values for the form that creates a fault rule, and for the filter of the wire log."""
        return _choices([action for action in FaultAction if action not in NEEDS_A_BROKER], ApiKey, ())

    return router


def _counts(faults: Faults, clock: MovableClock) -> dict[str, Any]:
    return {"now_ms": clock.now_ms(), "ahead_ms": clock.ahead_ms, "rules": len(faults.rules), "held": len(faults.held)}


def _choices(actions: Iterable[FaultAction], apis: Iterable[int], steps: Iterable[str]) -> Choices:
    return Choices(
        actions=[action.value for action in actions],
        apis=sorted(ApiKey(key).camel_case for key in apis),
        errors=[code.name for code in ErrorCode if code is not ErrorCode.NONE],
        steps=list(steps),
    )
