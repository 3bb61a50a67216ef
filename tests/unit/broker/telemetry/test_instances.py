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
from ottla.broker.telemetry.subscriptions import PUSH_INTERVAL_MS, Pusher, Wanted
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k72_push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec, compress

ANN, BOB = b"ann of 16 bytes!", b"bob of 16 bytes!"
ZERO, ONE = bytes(16), bytes(15) + b"\x01"
MAX_BYTES = 1_000


class Scene:
    """ClientTelemetry with a clock that the test advances."""

    def __init__(self, **of_release: bool) -> None:
        self.clock, self.timers = VirtualClock(), Timers()
        self.telemetry = ClientTelemetry(self.clock, self.timers, random.Random(7).randbytes, MAX_BYTES, **of_release)

    def get(self, instance_id: bytes = ANN, connection: int = 1, client_id: str = "c") -> Wanted:
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
def scene() -> Scene:
    return Scene()


def test_a_client_without_an_instance_id_gets_a_unique_one(scene: Scene) -> None:
    given = {scene.telemetry.get(ZERO, pusher(1))[0] for _ in range(50)}
    assert len(given) == 50
    assert not given & {ZERO, ONE}


def test_a_client_may_push_at_once_after_a_get_and_then_once_in_an_interval(scene: Scene) -> None:
    wanted = scene.get()
    assert scene.push(wanted.subscription_id) is ErrorCode.NONE
    scene.pass_time(PUSH_INTERVAL_MS - 1)
    assert scene.push(wanted.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.pass_time(1)
    assert scene.push(wanted.subscription_id) is ErrorCode.NONE
    assert (scene.telemetry.counts.pushed, scene.telemetry.counts.pushed_bytes) == (2, 8)


def test_a_client_may_get_its_subscription_once_in_an_interval(scene: Scene) -> None:
    scene.get()
    scene.pass_time(PUSH_INTERVAL_MS - 1)
    with pytest.raises(Rejected) as refused:
        scene.get()
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    scene.pass_time(1)
    subscription_id = scene.get().subscription_id
    assert scene.telemetry.counts.refused == {ErrorCode.THROTTLING_QUOTA_EXCEEDED: 1}
    scene.pass_time(PUSH_INTERVAL_MS - 1)
    assert scene.push(subscription_id) is ErrorCode.NONE
    scene.pass_time(1)
    with pytest.raises(Rejected):  # a push counts, too
        scene.get()


@pytest.mark.parametrize(
    ("mistake", "code"),
    [({"subscription_id": 0}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID), ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)],
)
def test_a_client_may_get_at_once_after_an_error_that_a_get_resolves(scene: Scene, mistake: dict[str, int], code: ErrorCode) -> None:
    wanted = scene.get()
    assert scene.push(**{"subscription_id": wanted.subscription_id, **mistake}) is code
    assert scene.get() == wanted
    with pytest.raises(Rejected):
        scene.get()


def test_a_terminating_push_may_come_at_once_and_is_the_last(scene: Scene) -> None:
    subscription_id = scene.get().subscription_id
    assert scene.push(subscription_id) is ErrorCode.NONE
    assert scene.push(subscription_id, terminating=True) is ErrorCode.NONE
    assert scene.push(subscription_id, terminating=True) is ErrorCode.INVALID_REQUEST
    assert scene.push(subscription_id) is ErrorCode.INVALID_REQUEST
    assert scene.push(subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "as in Kafka, where a refused push unsays the end"


@pytest.mark.parametrize("reserved", [ZERO, ONE])
def test_a_reserved_instance_id_is_rejected(scene: Scene, reserved: bytes) -> None:
    assert scene.push(0, reserved) is ErrorCode.INVALID_REQUEST
    assert len(scene.telemetry) == 0


def test_a_changed_subscription_takes_effect_with_the_next_request(scene: Scene) -> None:
    before = scene.get()
    scene.telemetry.subscriptions.change("s", {"metrics": "a"})
    now = scene.get()
    assert now.metrics == ("a",)
    assert scene.push(now.subscription_id) is ErrorCode.NONE
    scene.telemetry.subscriptions.change("s", {})
    assert scene.push(now.subscription_id) is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert scene.get() == before
    assert scene.push(before.subscription_id) is ErrorCode.THROTTLING_QUOTA_EXCEEDED, "as in Kafka, where such a get opens no way to push"


def test_a_client_is_matched_by_its_attributes_at_the_first_request(scene: Scene) -> None:
    scene.get(client_id="first")
    scene.telemetry.subscriptions.change("s", {"metrics": "a", "match": "client_id=first"})
    assert scene.get(client_id="second").metrics == ("a",)


def test_the_size_limit_applies_before_and_after_decompression(scene: Scene) -> None:
    subscription_id = scene.get().subscription_id
    assert scene.push(subscription_id, metrics=bytes(MAX_BYTES + 1)) is ErrorCode.TELEMETRY_TOO_LARGE
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        bomb = compress(codec, bytes(MAX_BYTES + 1))
        assert scene.push(subscription_id, metrics=bomb, compression_type=codec, terminating=True) is ErrorCode.INVALID_RECORD
        scene.telemetry.disconnected(1)
    assert len(scene.telemetry.payloads) == 0


def test_a_payload_outlives_its_instance(scene: Scene) -> None:
    scene.push(scene.get().subscription_id, metrics=compress(Codec.ZSTD, b"otlp"), compression_type=Codec.ZSTD, terminating=True)
    scene.telemetry.disconnected(1)
    (kept,) = scene.telemetry.payloads.newest_first()
    assert (kept.instance_id, kept.codec, kept.size_bytes, kept.terminating) == (ANN, Codec.ZSTD, 4, True)
    assert ANN not in scene.telemetry


def test_an_instance_is_removed_with_the_connection_on_which_it_was_created(scene: Scene) -> None:
    scene.get(ANN, 1)
    scene.push(0, ANN, 2)
    scene.telemetry.disconnected(2)
    assert ANN in scene.telemetry
    scene.telemetry.disconnected(1)
    assert ANN not in scene.telemetry
    scene.telemetry.disconnected(1)


def test_an_instance_outlives_its_connection_in_a_release_before_4_0() -> None:
    scene = Scene(forgets_closed=False)
    scene.get(ANN, 1)
    scene.telemetry.disconnected(1)
    assert ANN in scene.telemetry
    scene.pass_time(3 * PUSH_INTERVAL_MS)
    assert ANN not in scene.telemetry


def test_an_instance_that_is_silent_for_three_intervals_and_a_minute_is_removed(scene: Scene) -> None:
    scene.get(ANN, 1)
    scene.telemetry.subscriptions.change("often", {"interval.ms": "100", "match": "client_id=often"})
    scene.get(BOB, 2, client_id="often")
    scene.pass_time(limits.TELEMETRY_IDLE_MS - 1)
    assert len(scene.telemetry) == 2
    scene.pass_time(1)
    assert (ANN in scene.telemetry, BOB in scene.telemetry) == (True, False)
    scene.pass_time(3 * PUSH_INTERVAL_MS)
    assert len(scene.telemetry) == 0
    assert len(scene.timers) == 0


def test_a_request_renews_an_instances_expiry(scene: Scene) -> None:
    for _ in range(5):
        scene.get()
        scene.pass_time(2 * PUSH_INTERVAL_MS)
    assert ANN in scene.telemetry
    assert len(scene.timers) == 1


def test_the_instance_that_was_silent_longest_is_removed_for_a_new_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_INSTANCES", 3)
    ids = [bytes([number]) * 16 for number in range(1, 6)]
    for number, instance_id in enumerate(ids[:3]):
        scene.get(instance_id, number)
    scene.push(0, ids[0])
    for instance_id in ids[3:]:
        scene.get(instance_id, 9)
    assert [instance_id in scene.telemetry for instance_id in ids] == [True, False, False, True, True]
    assert len(scene.timers) == 3


def test_the_memory_of_client_names_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_NAMES_BYTES", 10_000)
    for number in range(1, 20):
        scene.get(bytes([number]) * 16, client_id="x" * 3_000)
    assert len(scene.telemetry) == 3
    scene.get(BOB, client_id="y" * 30_000)
    assert (len(scene.telemetry), BOB in scene.telemetry) == (1, True)
