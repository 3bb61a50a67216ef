"""When a client may get its telemetry subscription and push. Each rule is compared with Apache Kafka in
client_compat/differential/scenarios/telemetry.py."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.broker.core import limits
from ottla.broker.core.clock import VirtualClock
from ottla.broker.core.rejected import Rejected
from ottla.broker.core.timers import Timers
from ottla.broker.telemetry.instances import ClientTelemetry
from ottla.broker.telemetry.subscriptions import PUSH_INTERVAL_MS, ClientSubscription, Pusher
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.batch import HEADER_BYTES
from ottla.protocol.records.compression import BLOCKS_MIN, Codec, compress
from ottla.protocol.records.record import SimpleRecord
from tests.support.tiny_blocks import in_many_blocks

ANN, BOB = b"ann of 16 bytes!", b"bob of 16 bytes!"
ZERO, ONE = bytes(16), bytes(15) + b"\x01"
MAX_BYTES = 1_000


class Harness:
    """ClientTelemetry with a clock that the test advances."""

    def __init__(self, **of_release: bool) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.telemetry = ClientTelemetry(self.clock, self.timers, random.Random(7).randbytes, MAX_BYTES, **of_release)

    def get(self, instance_id: bytes = ANN, connection: int = 1, client_id: str = "c") -> ClientSubscription:
        return self.telemetry.get(instance_id, pusher(connection, client_id))[1]

    def push(self, subscription_id: int, instance_id: bytes = ANN, connection: int = 1, **fields: Any) -> ErrorCode:
        request = PushTelemetryRequest(instance_id, subscription_id, **{"metrics": b"otlp", **fields})
        try:
            self.telemetry.push(request, pusher(connection))
        except Rejected as refused:
            return refused.code
        return ErrorCode.NONE

    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms)
        self.timers.run_due(self.clock.mono_ms())


def pusher(connection: int, client_id: str = "c") -> Pusher:
    return Pusher(connection, client_id, "software", "1.0", "127.0.0.1", 40_000 + connection)


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_client_without_an_instance_id_gets_a_unique_one(harness: Harness) -> None:
    given = {harness.telemetry.get(ZERO, pusher(1))[0] for _ in range(50)}
    assert len(given) == 50
    assert not given & {ZERO, ONE}


def test_a_client_may_push_at_once_after_a_get_and_then_once_in_an_interval(harness: Harness) -> None:
    wanted = harness.get()
    assert harness.push(wanted.subscription_id) is ErrorCode.NONE
    harness.pass_time(PUSH_INTERVAL_MS - 1)
    assert harness.push(wanted.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.pass_time(1)
    assert harness.push(wanted.subscription_id) is ErrorCode.NONE
    assert (harness.telemetry.counts.pushed, harness.telemetry.counts.pushed_bytes) == (2, 8)


def test_a_client_may_get_its_subscription_once_in_an_interval(harness: Harness) -> None:
    harness.get()
    harness.pass_time(PUSH_INTERVAL_MS - 1)
    with pytest.raises(Rejected) as refused:
        harness.get()
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    harness.pass_time(1)
    subscription_id = harness.get().subscription_id
    assert harness.telemetry.counts.refused == {ErrorCode.THROTTLING_QUOTA_EXCEEDED: 1}
    harness.pass_time(PUSH_INTERVAL_MS - 1)
    assert harness.push(subscription_id) is ErrorCode.NONE
    harness.pass_time(1)
    with pytest.raises(Rejected):  # a push counts, too
        harness.get()


@pytest.mark.parametrize(
    ("mistake", "code"),
    [({"subscription_id": 0}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID), ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)],
)
def test_a_client_may_get_at_once_after_an_error_that_a_get_resolves(harness: Harness, mistake: dict[str, int], code: ErrorCode) -> None:
    wanted = harness.get()
    assert harness.push(**{"subscription_id": wanted.subscription_id, **mistake}) is code
    assert harness.get() == wanted
    with pytest.raises(Rejected):
        harness.get()


def test_a_terminating_push_may_come_at_once_and_is_the_last(harness: Harness) -> None:
    subscription_id = harness.get().subscription_id
    assert harness.push(subscription_id) is ErrorCode.NONE
    assert harness.push(subscription_id, terminating=True) is ErrorCode.NONE
    assert harness.push(subscription_id, terminating=True) is ErrorCode.INVALID_REQUEST
    assert harness.push(subscription_id) is ErrorCode.INVALID_REQUEST
    assert harness.push(subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "as in Kafka, where a refused push unsays the end"


@pytest.mark.parametrize("reserved", [ZERO, ONE])
def test_a_reserved_instance_id_is_rejected(harness: Harness, reserved: bytes) -> None:
    assert harness.push(0, reserved) is ErrorCode.INVALID_REQUEST
    assert len(harness.telemetry) == 0


def test_a_changed_subscription_takes_effect_with_the_next_request(harness: Harness) -> None:
    before = harness.get()
    harness.telemetry.subscriptions.change("s", {"metrics": "a"})
    now = harness.get()
    assert now.metrics == ("a",)
    assert harness.push(now.subscription_id) is ErrorCode.NONE
    harness.telemetry.subscriptions.change("s", {})
    assert harness.push(now.subscription_id) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert harness.get() == before
    assert harness.push(before.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "as in Kafka, where such a get opens no way to push"


def test_a_client_is_matched_by_its_attributes_at_the_first_request(harness: Harness) -> None:
    harness.get(client_id="first")
    harness.telemetry.subscriptions.change("s", {"metrics": "a", "match": "client_id=first"})
    assert harness.get(client_id="second").metrics == ("a",)


def test_the_size_limit_applies_before_and_after_decompression(harness: Harness) -> None:
    subscription_id = harness.get().subscription_id
    assert harness.push(subscription_id, metrics=bytes(MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        bomb = compress(codec, bytes(MAX_BYTES + 1))
        assert harness.push(subscription_id, metrics=bomb, compression_type=codec, terminating=True) is ErrorCode.INVALID_RECORD
        harness.telemetry.disconnected(1)
    assert len(harness.telemetry.payloads) == 0


def test_metrics_in_very_many_compressed_blocks_are_invalid(harness: Harness) -> None:
    harness.telemetry.max_bytes = 100_000
    blocks = in_many_blocks([SimpleRecord(None, b"otlp")], BLOCKS_MIN)[HEADER_BYTES:]
    pushed = harness.push(harness.get().subscription_id, metrics=blocks, compression_type=Codec.SNAPPY)
    assert (pushed, len(harness.telemetry.payloads)) == (ErrorCode.INVALID_RECORD, 0)


def test_a_payload_outlives_its_instance(harness: Harness) -> None:
    harness.push(harness.get().subscription_id, metrics=compress(Codec.ZSTD, b"otlp"), compression_type=Codec.ZSTD, terminating=True)
    harness.telemetry.disconnected(1)
    (kept,) = harness.telemetry.payloads.newest_first()
    assert (kept.instance_id, kept.codec, kept.size_bytes, kept.terminating) == (ANN, Codec.ZSTD, 4, True)
    assert ANN not in harness.telemetry


def test_an_instance_is_removed_with_the_connection_on_which_it_was_created(harness: Harness) -> None:
    harness.get(ANN, 1)
    harness.push(0, ANN, 2)
    harness.telemetry.disconnected(2)
    assert ANN in harness.telemetry
    harness.telemetry.disconnected(1)
    assert ANN not in harness.telemetry
    harness.telemetry.disconnected(1)


def test_an_instance_outlives_its_connection_in_a_release_before_4_0() -> None:
    harness = Harness(forgets_closed=False)
    harness.get(ANN, 1)
    harness.telemetry.disconnected(1)
    assert ANN in harness.telemetry
    harness.pass_time(3 * PUSH_INTERVAL_MS)
    assert ANN not in harness.telemetry


def test_an_instance_that_is_silent_for_three_intervals_and_a_minute_is_removed(harness: Harness) -> None:
    harness.get(ANN, 1)
    harness.telemetry.subscriptions.change("often", {"interval.ms": "100", "match": "client_id=often"})
    harness.get(BOB, 2, client_id="often")
    harness.pass_time(limits.TELEMETRY_IDLE_MS - 1)
    assert len(harness.telemetry) == 2
    harness.pass_time(1)
    assert (ANN in harness.telemetry, BOB in harness.telemetry) == (True, False)
    harness.pass_time(3 * PUSH_INTERVAL_MS)
    assert len(harness.telemetry) == 0
    assert len(harness.timers) == 0


def test_a_request_renews_an_instances_expiry(harness: Harness) -> None:
    for _ in range(5):
        harness.get()
        harness.pass_time(2 * PUSH_INTERVAL_MS)
    assert ANN in harness.telemetry
    assert len(harness.timers) == 1


def test_the_instance_that_was_silent_longest_is_removed_for_a_new_one(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_INSTANCES", 3)
    ids = [bytes([number]) * 16 for number in range(1, 6)]
    for number, instance_id in enumerate(ids[:3]):
        harness.get(instance_id, number)
    harness.push(0, ids[0])
    for instance_id in ids[3:]:
        harness.get(instance_id, 9)
    assert [instance_id in harness.telemetry for instance_id in ids] == [True, False, False, True, True]
    assert len(harness.timers) == 3


def test_the_memory_of_client_names_is_bounded(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_NAMES_BYTES", 10_000)
    for number in range(1, 20):
        harness.get(bytes([number]) * 16, client_id="x" * 3_000)
    assert len(harness.telemetry) == 3
    harness.get(BOB, client_id="y" * 30_000)
    assert (len(harness.telemetry), BOB in harness.telemetry) == (1, True)
