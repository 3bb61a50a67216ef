from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from client_compat.support import load, producers
from client_compat.support.load import Load, Shared
from client_compat.support.producers import Feed, Item, send_with_confluent
from ottla.testing import InProcessBroker


class Three(Feed):
    """A workload of three records, in which the client fails when it sends the second one."""

    def __init__(self) -> None:
        self.answers: dict[int, str] = {}

    def records(self) -> Iterator[Item | None]:
        yield 0, None, b"0"
        while not self.answers:
            yield None
        yield 1, None, b"1"
        self.lost_at = 0.0
        yield None
        yield 2, None, b"2"

    def acked(self, number: int, partition: int, offset: int) -> None:
        self.answers[number] = "acked"

    def failed(self, number: int, error: object) -> None:
        self.answers[number] = "failed"

    def given_up(self, number: int) -> None:
        self.answers[number] = "given up"


def test_lost_client_is_given_up_with_its_unanswered_values_and_another_continues() -> None:
    with InProcessBroker() as broker:
        broker.topics.create("t")
        feed = Three()
        send_with_confluent(feed, "t", {"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 500})
        assert feed.answers == {0: "acked", 1: "given up", 2: "acked"}


def test_client_without_any_broker_for_a_while_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "LOST_S", -1.0)
    values = load.Values(0, Load("nowhere", "t", tmp_path, 1), Shared.among(2))
    for brokers, lost in (({"b/1": {}}, False), ({}, True), ({}, True), ({"b/1": {}}, False)):
        values.take_statistics(json.dumps({"brokers": brokers, "topics": {}}))
        assert values.client_is_lost == lost
