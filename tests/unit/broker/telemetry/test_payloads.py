from __future__ import annotations

import pytest

from ottla.broker.core import limits
from ottla.broker.telemetry.payloads import Payload, Payloads
from ottla.broker.telemetry.subscriptions import ClientSubscription, Pusher
from ottla.protocol.records.compression import Codec
from ottla.protocol.uuids import encode_uuid


def payload(number: int, data: bytes = b"otlp", client_id: str | None = "c") -> Payload:
    pusher = Pusher(number, client_id, "s", "1", "127.0.0.1", 4_000)
    return Payload(number.to_bytes(16, "big"), pusher, ClientSubscription(1, (), 1_000), 0, False, Codec.NONE, data, len(data))


def test_a_payload_replaces_the_instances_previous_one() -> None:
    kept = Payloads()
    for each in (payload(1, b"old"), payload(2), payload(1, b"new!")):
        kept.keep(each)
    assert [each.data for each in kept.newest_first()] == [b"new!", b"otlp"]
    assert kept.held_bytes == 2 * len("otlpcs1")


def test_an_instance_is_found_by_kafkas_text_form_of_its_id() -> None:
    kept = Payloads()
    kept.keep(payload(7))
    assert kept.of(encode_uuid(payload(7).instance_id)) == payload(7)
    assert kept.of("") is None


def test_the_oldest_payloads_are_removed_when_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_KEPT_BYTES", 3_000)
    kept = Payloads()
    for number in range(10):
        kept.keep(payload(number, bytes(900)))
        assert kept.held_bytes <= 3_000
    assert [each.pusher.connection for each in kept.newest_first()] == [9, 8, 7]
    kept.keep(payload(10, b"", client_id="x" * 2_500))
    assert len(kept) == 1


def test_there_are_no_more_payloads_than_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TELEMETRY_INSTANCES", 3)
    kept = Payloads()
    for number in range(10):
        kept.keep(payload(number))
    assert [each.pusher.connection for each in kept.newest_first()] == [9, 8, 7]
