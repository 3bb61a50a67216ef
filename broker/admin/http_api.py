"""The admin port's HTTP interface: JSON in, JSON out, described by `GET /openapi.json`.

Rules: it is off by default; who may ask is the guard's to say, before anything here is called, so a GET changes nothing; what it does is
done when it answers; a rule that cannot be read is 422 with the reason, a name that is not there 404, one that is taken 409.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from ottla.broker.admin.metrics import CONTENT_TYPE, Metrics
from ottla.broker.admin.telemetry import TelemetryOut, TelemetryPage, one, page
from ottla.broker.app import Broker
from ottla.broker.core.clock import MovableClock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import STEPS, FaultAction, FaultSyntax, make_rule
from ottla.broker.net.listeners import host_and_port
from ottla.broker.telemetry.instances import ClientTelemetry


class RuleIn(BaseModel):
    """A rule to load: what happens to what, how often. A field left out matches everything. Text fields take shell patterns."""

    model_config = ConfigDict(extra="forbid")

    action: Annotated[str, Field(description=", ".join(action.value for action in FaultAction), examples=["drop-ack"])]
    api: Annotated[str | int | None, Field(description="Kafka's name or number of the API", examples=["Produce"])] = None
    client_id: str | None = None
    transactional_id: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    connection: Annotated[int | None, Field(description="the number of the connection, from 1")] = None
    after: Annotated[int, Field(description="so many matches pass unhurt first")] = 0
    times: Annotated[int | None, Field(description="at most so many hits; without it, every match")] = None
    share: Annotated[float, Field(description="which share of the matches is hit, drawn from `seed`")] = 1.0
    seed: int = 0
    ms: Annotated[int | None, Field(description="for delay, delay-request and throttle")] = None
    bytes: Annotated[int | None, Field(description="for cut-response: how much of the response is sent; half without it")] = None
    code: Annotated[str | int | None, Field(description="for error and error-after: Kafka's name or number of the error")] = None
    step: Annotated[str | None, Field(description=f"for pause and crash: {', '.join(STEPS)}")] = None
    name: Annotated[str, Field(description="what release and delete call it; one is made up without it")] = ""


class RuleOut(BaseModel):
    """A rule that is loaded; beside what was given: how many requests matched, how many were hit, whether it did all it was there for."""

    model_config = ConfigDict(extra="allow")

    action: str
    name: str
    seen: int
    hits: int
    consumed: bool


class HeldOut(BaseModel):
    """A request, a response or a step of the coordinator that waits for its release."""

    rule: str
    what: str


class Released(BaseModel):
    """How much was let go."""

    released: int


class ClockState(BaseModel):
    """The broker's time, and how far it was put forward, in milliseconds."""

    now_ms: int
    ahead_ms: int


class Health(BaseModel):
    """What a health check wants to know."""

    status: str
    cluster_id: str
    listeners: list[str]
    partitions: int
    connections: int


class Advance(BaseModel):
    """By how much to put the clock forward."""

    ms: Annotated[int, Field(ge=0)]


def make_api(broker: Broker, faults: Faults, clock: MovableClock) -> FastAPI:
    """The interface to one broker that runs on the same loop."""
    about = "Scripted faults and the clock of one broker."
    api = FastAPI(title="Ottla admin", docs_url=None, redoc_url=None, openapi_url=None, description=about)

    @api.get("/openapi.json", include_in_schema=False)
    async def description() -> JSONResponse:
        """Made when somebody asks first, which takes a tenth of a second: not on the broker's loop."""
        return JSONResponse(await asyncio.to_thread(api.openapi))

    _add_faults(api, faults)

    @api.get("/health")
    async def health() -> Health:
        """Whether the broker serves, and what."""
        return Health(
            status="ok",
            cluster_id=broker.services.cluster_id,
            listeners=[f"{each.name}://{host_and_port(each.host, each.port)}" for each in broker.services.listeners],
            partitions=len(broker.services.partitions),
            connections=broker.connection_count,
        )

    metrics = Metrics(broker)

    @api.get("/metrics", response_class=PlainTextResponse)
    async def scrape() -> Response:
        """What Prometheus collects: under the names that dashboards for Kafka's jmx_exporter chart, and the lag of groups."""
        try:
            return Response(await metrics.text(), media_type=CONTENT_TYPE)
        except ImportError as error:
            raise HTTPException(501, f"metrics need prometheus-client: pip install 'ottla[admin]' ({error})") from error

    _add_telemetry(api, broker)

    @api.get("/clock")
    async def clock_state() -> ClockState:
        """The broker's time."""
        return ClockState(now_ms=clock.now_ms(), ahead_ms=clock.ahead_ms)

    @api.post("/clock/advance")
    async def advance(by: Advance) -> ClockState:
        """Put the clock forward: what becomes due by it is done at once."""
        try:
            clock.advance(by.ms)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error
        return await clock_state()

    return api


def _add_telemetry(api: FastAPI, broker: Broker) -> None:
    def pushed() -> ClientTelemetry:
        if (found := broker.services.telemetry) is None:
            raise HTTPException(404, "clients are not asked for their metrics: set client.telemetry.enable=true")
        return found

    @api.get("/telemetry", response_model=TelemetryPage)
    async def telemetry() -> Response:
        """What clients measured of themselves (KIP-714): of each what it pushed last, the newest first."""
        return Response(await page(pushed()), media_type="application/json")

    @api.get("/telemetry/{client_instance_id}", response_model=TelemetryOut)
    async def telemetry_of(client_instance_id: str) -> Response:
        """What one client pushed last."""
        taken = pushed()
        payload = taken.payloads.of(client_instance_id)
        if payload is None:
            raise HTTPException(404, f"no metrics of {client_instance_id} are kept")
        return Response(await one(taken, payload), media_type="application/json")


def _add_faults(api: FastAPI, faults: Faults) -> None:
    @api.get("/faults")
    async def list_rules() -> list[RuleOut]:
        """All rules, in the order in which they are asked."""
        return [RuleOut(**rule.to_json()) for rule in faults.rules]

    @api.post("/faults", status_code=201)
    async def add(rule: RuleIn) -> RuleOut:
        """Load a rule."""
        try:
            made = faults.add(make_rule(rule.model_dump(exclude_defaults=True)))
        except FaultSyntax as error:
            raise HTTPException(422, str(error)) from error
        except ValueError as error:
            raise HTTPException(409, str(error)) from error
        return RuleOut(**made.to_json())

    @api.get("/faults/{name:path}")
    async def get(name: str) -> RuleOut:
        """One rule."""
        return RuleOut(**_known(faults, name).to_json())

    @api.delete("/faults/{name:path}", status_code=204)
    async def remove(name: str) -> None:
        """Unload a rule and release what it holds."""
        _known(faults, name)
        faults.remove(name)

    @api.delete("/faults", status_code=204)
    async def reset() -> None:
        """Unload all rules and release everything."""
        faults.reset()

    @api.get("/held")
    async def held() -> list[HeldOut]:
        """What is held, in the order it came."""
        return [HeldOut(rule=each.rule.name, what=each.what) for each in faults.held]

    @api.post("/held/release")
    async def release(rule: Annotated[str | None, Query(description="only what this rule holds")] = None) -> Released:
        """Let go what is held."""
        if rule is not None:
            _known(faults, rule)
        return Released(released=faults.release(rule))


def _known(faults: Faults, name: str) -> Any:
    try:
        return faults.get(name)
    except KeyError as error:
        raise HTTPException(404, str(error.args[0])) from error
