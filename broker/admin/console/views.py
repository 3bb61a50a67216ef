"""Assembles the console: the routes of all its views, and its page."""

from __future__ import annotations

from typing import Final

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
from ottla.broker.api.routes import broker_routes
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import STEPS, FaultAction
from ottla.broker.net.network import host_and_port
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode


class Choices(BaseModel):
    """Values to choose from when a fault rule is created."""

    actions: list[str]
    apis: list[str]
    errors: list[str]
    steps: list[str]


class BrokerView(BaseModel):
    """Data for the header of the page."""

    node_id: int
    cluster_id: str
    address: str
    connections: int
    now_ms: int = Field(description="the broker's time")
    ahead_ms: int = Field(description="by how much the clock was advanced")
    rules: int = Field(description="fault rules that are loaded")
    held: int = Field(description="held requests, responses and steps, which wait for their release")


RECORDS: Final = frozenset({f"{PAGE}/records"})
"""Paths that return records. If the broker has an authorizer, reading them needs the token even with `--admin-open-local`."""


def add_console(api: FastAPI, broker: Broker, faults: Faults, clock: MovableClock) -> frozenset[str]:
    """Add the console to the admin port's API; return the paths that need no token."""
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
        cluster_router(broker),
    ):
        api.include_router(router, prefix=PAGE, tags=["console"])
    return add_page(api)


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
            now_ms=clock.now_ms(),
            ahead_ms=clock.ahead_ms,
            rules=len(faults.rules),
            held=len(faults.held),
        )

    @router.get("/choices")
    async def choices() -> Choices:
        """Values for the form that creates a fault rule."""
        return Choices(
            actions=[action.value for action in FaultAction],
            apis=sorted(ApiKey(key).camel_case for key in broker_routes()),
            errors=[code.name for code in ErrorCode if code is not ErrorCode.NONE],
            steps=list(STEPS),
        )

    return router
