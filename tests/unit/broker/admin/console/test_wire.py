"""The console's wire log: the observer alone, and over HTTP for a broker and a gateway with real clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.admin.console.wire import LineRing, WireQuery, WireTap
from ottla.broker.core import limits
from ottla.broker.core.clock import Clock
from ottla.broker.faults.engine import Faults
from ottla.broker.faults.rules import FaultSyntax
from ottla.broker.testing.in_process_gateway import InProcessGateway
from ottla.protocol.client import Client
from ottla.protocol.codec import encode_response
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from tests.support.console import HOST, AnyConsole, Console, running_console, served_gateway
from tests.support.exchanges import beat, exchange_of
from tests.support.topic_calls import create, produce

BROKER = 4
REBALANCE_IN_PROGRESS = 27


@pytest.fixture(scope="module")
def console() -> Iterator[Console]:
    with running_console() as found:
        yield found


class Tapped:
    """A wire log without a broker; tests pass exchanges to it by `faults.notify_observers`."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.tap = WireTap(self.faults, Clock())

    async def read(self, **query: Any) -> Any:
        return json.loads(await self.tap.read(WireQuery(**query)))

    async def numbers(self, **query: Any) -> list[int]:
        return [each["number"] for each in (await self.read(**query))["lines"]]


def test_requests_are_logged_from_the_first_read_until_the_last_readers_lease_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        log = Tapped()
        assert not log.faults.active
        assert await log.numbers() == []
        log.faults.notify_observers(beat())
        assert await log.numbers() == [1]
        monkeypatch.setattr(limits, "WIRE_LOG_LEASE_MS", 0)
        assert await log.numbers(api="Fetch") == []
        await asyncio.sleep(0)
        assert log.faults.active, "the reader of everything still has its lease"
        await log.numbers()
        async with asyncio.timeout(20):
            while log.faults.active:  # noqa: ASYNC110 # the end of a lease has no event
                await asyncio.sleep(0)
        monkeypatch.undo()
        assert await log.numbers() == [], "its lines were freed"
        log.faults.notify_observers(beat())
        assert await log.numbers(after=1) == [2]

    asyncio.run(run())


def test_line_is_kept_if_it_matches_a_readers_filter_and_later_filters_find_it() -> None:
    async def run() -> None:
        log = Tapped()
        await log.read(group="g*", errors=True)
        log.faults.notify_observers(beat())
        log.faults.notify_observers(beat(REBALANCE_IN_PROGRESS, took_ms=3))
        assert await log.numbers(group="g*", errors=True) == [1]
        await log.read()
        log.faults.notify_observers(beat(client="you"))
        log.faults.notify_observers(beat(REBALANCE_IN_PROGRESS, took_ms=30))
        for query, numbers in (
            ({}, [3, 2, 1]),
            ({"errors": True}, [3, 1]),
            ({"slower_than": 10}, [3]),
            ({"client_id": "y*"}, [2]),
            ({"api": "heartbeat", "connection": 7}, [3, 2, 1]),
            ({"api": "Fetch"}, []),
            ({"group": "h"}, []),
            ({"topic": "t"}, []),
        ):
            assert await log.numbers(**query) == numbers, query

    asyncio.run(run())


def test_a_response_has_the_newest_lines_that_fit_and_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        log = Tapped()
        await log.read()
        for _ in range(10):
            log.faults.notify_observers(beat())
        found = await log.read(limit=3)
        assert ([each["number"] for each in found["lines"]], found["last"], found["missed"]) == ([10, 9, 8], 10, 7)
        found = await log.read(after=8, limit=3)
        assert ([each["number"] for each in found["lines"]], found["missed"]) == ([10, 9], 0)
        size = len(json.dumps(found["lines"][0]))
        monkeypatch.setattr(limits, "WIRE_LOG_RESPONSE_BYTES", 2 * size)
        found = await log.read(after=2)
        assert ([each["number"] for each in found["lines"]], found["missed"]) == ([10, 9], 6)
        assert await log.numbers(after=99) == [10, 9], "the broker has started anew since then"

    asyncio.run(run())


def test_the_oldest_lines_are_dropped_and_counted_as_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WIRE_LOG_BYTES", 20_000)

    async def run() -> None:
        log = Tapped()
        await log.read()
        for _ in range(100):
            log.faults.notify_observers(beat())
        found = await log.read(after=10, limit=500)
        kept = len(found["lines"])
        assert 5 < kept < 40
        assert (found["lines"][0]["number"], found["missed"]) == (100, 90 - kept)

    asyncio.run(run())


def test_the_largest_request_takes_a_limited_part_of_the_ring() -> None:
    names = [f"{number:06}-{'t' * 240}" for number in range(20_000)]
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names])
    response = MetadataResponse(topics=[MetadataResponseTopic(3, name) for name in names])
    ring = LineRing(limits.WIRE_LOG_BYTES)
    for _ in range(3):
        ring.add(exchange_of(request, response, version=9, client="c" * 30_000))
    lines = ring.all()
    assert [line.number for line in lines] == [1, 2, 3]
    assert sum(line.size for line in lines) < limits.WIRE_LOG_BYTES / 10
    assert "more" in json.loads(lines[0].text)["response"]["topics"][-1]
    ring = LineRing(1_000)
    ring.add(exchange_of(request, response, version=9))
    assert (ring.all(), ring.last) == ([], 1)


def test_a_long_response_is_measured_on_a_thread_and_beyond_a_limit_its_line_is_counted_as_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WIRE_LOG_MEASURED", 2)
    response = MetadataResponse(topics=[MetadataResponseTopic(0, f"topic-{number}") for number in range(2_000)])
    size = sum(map(len, encode_response(3, 9, 0, response)))

    async def run() -> None:
        log = Tapped()
        await log.read()
        for _ in range(3):
            log.faults.notify_observers(exchange_of(MetadataRequest(None), response, version=9))
        log.faults.notify_observers(beat())
        assert [each["api"] for each in (await log.read())["lines"]][-1] == "Heartbeat", "nothing waits for the long ones"
        async with asyncio.timeout(20):
            while (found := await log.read(after=1))["last"] < 4:  # noqa: ASYNC110 # threads end when they end
                await asyncio.sleep(0)
        assert [(each["number"], each["api"], each["response_bytes"]) for each in found["lines"]][:2] == [
            (4, "Metadata", size),
            (3, "Metadata", size),
        ]
        assert (await log.read(after=0))["lines"][-1]["number"] == 2, "the first number is of the request that got no line"

    asyncio.run(run())


def test_a_further_filter_replaces_the_one_that_was_read_longest_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WIRE_LOG_READERS", 2)

    async def run() -> None:
        log = Tapped()
        for client in ("a", "b", "a", "c"):
            await log.read(client_id=client)
        for client in ("a", "b", "c"):
            log.faults.notify_observers(beat(client=client))
        assert [each["client_id"] for each in (await log.read(client_id="[a-c]"))["lines"]] == ["c", "a"]
        assert len(log.faults.observers) == 1

    asyncio.run(run())


def test_an_invalid_filter_is_rejected_and_starts_no_log() -> None:
    async def run() -> None:
        log = Tapped()
        with pytest.raises(FaultSyntax, match="a filter: there is no API 'Fetsch'"):
            await log.read(api="Fetsch")
        assert not log.faults.active

    asyncio.run(run())


def test_a_line_has_the_decoded_fields_and_no_secret(console: Console) -> None:
    assert console.read("wire", client_id="wire")["lines"] == []
    with console.client("wire") as client:
        create(client, "tapped")
        produce(client, "tapped", b"confidential")
        setting = AlterableConfig("ssl.key.password", value="correct horse")
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER, "1", [setting])]))
    lines = {each["api"]: each for each in console.read("wire", client_id="wire")["lines"]}
    written = lines["Produce"]
    assert (written["about"], written["errors"], written["seen"], written["faults"]) == ("tapped-0", [], True, [])
    assert min(written["request_bytes"], written["response_bytes"], written["took_ms"]) > 0
    assert lines["CreateTopics"]["request"]["topics"][0]["name"] == "tapped"
    assert written["response"]["responses"][0]["partition_responses"][0]["base_offset"] == 0
    (masked,) = lines["IncrementalAlterConfigs"]["request"]["resources"][0]["configs"]
    assert masked == {"name": "ssl.key.password", "config_operation": 0, "value": "***"}
    content = json.dumps(lines)
    assert "correct horse" not in content
    assert "confidential" not in content


@pytest.mark.parametrize(
    "query", ["api=Fetsch", "slower_than=-1", "slower_than=nan", "limit=501", "after=-1", "topics=t", f"topic={'t' * 1001}"]
)
def test_an_invalid_query_is_rejected(console: Console, query: str) -> None:
    assert console.answer("GET", f"/console/wire?{query}")[0] == 422


def test_a_gateway_decodes_requests_while_its_wire_log_is_read_and_then_no_more(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    with InProcessGateway(f"{HOST}:{console.broker.port}") as gateway, served_gateway(gateway) as page, client_of(gateway) as client:
        create(client, "before")
        assert not gateway.call(lambda node: node.faults.active)
        assert page.read("wire") == {"lines": [], "last": 0, "missed": 0, "since_ms": page.read("wire")["since_ms"]}
        create(client, "through")
        (line,) = page.read("wire", api="CreateTopics")["lines"]
        assert (line["about"], line["client_id"], line["errors"]) == ("through", "through", [])
        monkeypatch.setattr(limits, "WIRE_LOG_LEASE_MS", 1)
        for query in ({}, {"api": "CreateTopics"}):
            page.read("wire", **query)
        gateway.call_until(lambda node: not node.faults.active)
        monkeypatch.undo()
        create(client, "after")
        assert page.read("wire")["lines"] == []


def test_a_gateways_console_has_the_wire_log_and_the_faults_that_it_can_inject(console: Console) -> None:
    with InProcessGateway(f"{HOST}:{console.broker.port}") as gateway, served_gateway(gateway) as page:
        assert views(page) == {"node": "gateway", "views": ["wire", "faults"]}
        assert page.answer("GET", "/console/wire")[0] == 401, "what the cluster authorizes is unknown"
        about = page.read("gateway")
        assert (about["cluster"], about["address"]) == ([f"{HOST}:{console.broker.port}"], gateway.bootstrap)
        choices = page.read("choices")
        assert "drop-ack" in choices["actions"]
        assert not {"crash", "pause", "disk-full"} & {*choices["actions"]}
        assert choices["steps"] == []
        for path in ("topics", "requests", "broker"):
            assert page.answer("GET", f"/console/{path}")[0] == 404, path
    assert views(console)["node"] == "broker"
    assert {"topics", "wire", "faults", "cluster"} < {*views(console)["views"]}


def client_of(gateway: InProcessGateway) -> Client:
    return Client(HOST, gateway.port, client_id="through")


def views(page: AnyConsole) -> dict[str, Any]:
    """Return the constants that the script /console/views.js exports, by name."""
    status, headers, script = page.answer("GET", "/console/views.js")
    assert (status, headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    lines = [line.removeprefix("export const ").rstrip(";").split(" = ") for line in script.decode().splitlines()]
    return {name: json.loads(value) for name, value in lines}
