from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api.context import CloseConnection, Listener, Peer
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.routes import Route
from ottla.broker.api.services import Services
from ottla.broker.core.clock import Clock
from ottla.broker.faults.engine import Exchange, Faults
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import encode_request
from ottla.protocol.messages.k12_heartbeat import HeartbeatRequest, HeartbeatResponse

PEER = Peer("127.0.0.1", "127.0.0.1", 9092, Listener("PLAINTEXT", "127.0.0.1", 9092))
FRAME = b"".join(encode_request(ApiKey.HEARTBEAT, 4, 5, "me", HeartbeatRequest("g")))[4:]
ONE_CALL = """
import sys
from ottla.broker.testing.in_process import InProcessBroker
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
with InProcessBroker() as broker:
    if "observed" in sys.argv:
        broker.record()
    with Client("127.0.0.1", broker.port) as client:
        client.call(MetadataRequest())
print(*sorted({"ottla.broker.api.pipeline", "ottla.broker.api.faulty", "ottla.broker.faults.responses"}.intersection(sys.modules)))
"""


def answers(ctx: object, request: object) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=27)


def answers_nothing(ctx: object, request: object) -> None:
    return None


def closes(ctx: object, request: object) -> None:
    raise CloseConnection("no")


def fails(ctx: object, request: object) -> None:
    raise ZeroDivisionError("a bug")


async def answers_later(ctx: object, request: object) -> HeartbeatResponse:
    await asyncio.sleep(0)
    return HeartbeatResponse(error_code=27)


async def fails_later(ctx: object, request: object) -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError("a bug")


async def outcome(handle: Callable[..., Any], seen: list[Exchange] | None, caplog: pytest.LogCaptureFixture) -> tuple[object, ...]:
    """Return whether there was a task, the reply, and the log, of one request; it is observed if `seen` is given."""
    caplog.clear()
    route = Route(0, 99, 0, lambda: handle)
    faults = Faults()
    if seen is not None:
        faults.observe(seen.append)
    tested = Dispatcher(cast(Services, SimpleNamespace(clock=Clock())), faults, {ApiKey.HEARTBEAT: route})
    with caplog.at_level(logging.INFO):
        reply = tested.handle(PEER, FRAME)
        waited = isinstance(reply, asyncio.Future)
        last = await cast("asyncio.Future[object]", reply) if waited else reply
    return waited, last, [(each.name, each.levelname, each.getMessage(), each.exc_info is not None) for each in caplog.records]


@pytest.mark.parametrize("handle", [answers, answers_nothing, closes, fails, answers_later, fails_later])
async def test_a_handlers_outcome_is_the_same_with_and_without_observers(
    handle: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Exchange] = []
    assert await outcome(handle, seen, caplog) == await outcome(handle, None, caplog)
    answered = handle in {answers, answers_later}
    assert [(each.seen, each.response is not None, each.late, each.number) for each in seen] == [(answered, answered, False, 0)]


@pytest.mark.parametrize(("mode", "loaded"), [("alone", ""), ("observed", "ottla.broker.api.pipeline")])
def test_only_rules_import_faults_and_only_observers_import_the_pipeline(mode: str, loaded: str) -> None:
    ran = subprocess.run([sys.executable, "-c", ONE_CALL, mode], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == loaded
