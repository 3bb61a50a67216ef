"""The client programs' side of the control protocol, with a client made of plain functions."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from client_compat.clients.control import Failure, Program, Request, Unsupported, compact_json, settings


class Thing:
    """A stand-in for both a producer and a consumer."""

    def __init__(self, request: Request) -> None:
        self.request, self.closed = request, False

    async def send(self, request: Request) -> dict[str, Any]:
        return {"results": [{"partition": 0, "offset": len(request["records"])}]}

    def begin(self, request: Request) -> None:
        raise KeyError("of the client's own")

    def commit(self, request: Request) -> None:
        raise Unsupported("toy has no commits")

    async def abort(self, request: Request) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        closed.append(self.request["handle"])


closed: list[str] = []


@pytest.fixture
def program() -> Program:
    closed.clear()
    return Program("toy", "1", Thing, Thing, lambda bootstrap: Thing(Request(0, "", {"handle": bootstrap})), _failure)


def _failure(error: BaseException) -> Failure | None:
    return Failure("NOT_COORDINATOR", "elsewhere", retriable=True) if isinstance(error, KeyError) else None


async def _answers(program: Program, *requests: dict[str, Any]) -> list[Any]:
    source = io.StringIO("".join(json.dumps({"id": number, **request}) + "\n" for number, request in enumerate(requests)))
    sink = io.StringIO()
    await program.run(source, sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


OPEN = {"op": "producer.open", "handle": "p", "bootstrap": "b"}


async def test_program_introduces_itself_answers_in_order_and_closes_open_handles(program: Program) -> None:
    ready, opened, sent = await _answers(program, OPEN, {"op": "producer.send", "handle": "p", "topic": "t", "records": [1, 2]})
    assert ready["ready"]["client"] == "toy"
    assert opened == {"id": 0, "ok": {}}
    assert sent == {"id": 1, "ok": {"results": [{"partition": 0, "offset": 2}]}}
    assert closed == ["p"]


async def test_exception_is_answered_with_the_clients_code_and_flags(program: Program) -> None:
    answer = (await _answers(program, OPEN, {"op": "producer.begin", "handle": "p"}))[2]
    assert answer["error"] == {"code": "NOT_COORDINATOR", "message": "elsewhere", "retriable": True, "fatal": None, "abortable": None}


@pytest.mark.parametrize("op", ["producer.commit", "admin.list_groups"])
async def test_missing_client_feature_is_unsupported_by_name(program: Program, op: str) -> None:
    answer = (await _answers(program, OPEN, {"op": op, "handle": "p", "bootstrap": "b"}))[2]
    assert answer["unsupported"].startswith("toy has no ")


async def test_hanging_call_times_out(program: Program) -> None:
    answer = (await _answers(program, OPEN, {"op": "producer.abort", "handle": "p", "timeout_ms": 20}))[2]
    assert answer["error"]["code"] == "CLIENT:TIMEOUT"


@pytest.mark.parametrize("request_", [{"op": "producer.fly"}, {"op": "consumer.poll", "handle": "none"}, {"op": "producer.open"}])
async def test_unknown_or_malformed_request_is_an_error(program: Program, request_: dict[str, Any]) -> None:
    answer = (await _answers(program, request_))[1]
    assert answer["error"]["code"] == "CLIENT:BadRequest"


def test_options_map_to_the_clients_settings_and_others_are_unsupported() -> None:
    request = Request(1, "producer.open", {"handle": "p", "bootstrap": "b", "acks": "0", "linger_ms": 5, "timeout_ms": 3})
    assert settings("toy", request, {"acks": ("acks", {"0": 0}), "linger_ms": "linger"}) == {"acks": 0, "linger": 5}
    with pytest.raises(Unsupported, match="toy has no setting for linger_ms"):
        settings("toy", request, {"acks": "acks"})
    with pytest.raises(Unsupported, match="toy has no acks 0"):
        settings("toy", request, {"acks": ("acks", {"1": 1}), "linger_ms": "linger"})


def test_compact_json_is_sorted_and_without_spaces() -> None:
    assert compact_json('{"b": 1, "a": "ö"}'.encode()) == '{"a":"ö","b":1}'.encode()
    assert compact_json(None) is None
