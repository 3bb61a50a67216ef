"""Sample programs under `ottla verify --bootstrap` on Apache Kafka: correct ones hold, and wrong ones break the guarantee that their
mistake concerns.

`make verify-samples ARGS="--bootstrap HOST:PORT"` runs all of them on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from client_compat.kafka.reference import ReferenceBroker
from client_compat.samples.mistakes import MISTAKES, Role
from client_compat.verification.__main__ import Sample
from ottla.protocol.client import Client
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from tests.support.apache_kafka import jars_or_skip


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceBroker]:
    jars_or_skip()
    with ReferenceBroker(tmp_path_factory.mktemp("kafka") / "data") as started:
        yield started


@pytest.mark.parametrize(
    ("client", "role", "scenarios", "mistake"),
    [
        ("confluent-kafka", "stream", ("lost-ack", "crash-restart"), None),
        ("kafka-python", "consumer", ("expelled-member",), None),
        ("aiokafka", "producer", (), "no-idempotence"),
        ("aiokafka", "producer", (), "random-transactional-id"),
    ],
)
def test_sample_gets_its_expected_verdict_against_kafka(
    kafka: ReferenceBroker, client: str, role: Role, scenarios: tuple[str, ...], mistake: str | None
) -> None:
    wrong = next((each for each in MISTAKES if each.name == mistake), None)
    sample = Sample(client, role, wrong, kafka.bootstrap, only=scenarios)
    sample.run_verify()
    assert sample.as_expected, (sample.found, sample.scenarios)
    assert {each["name"] for each in sample.scenarios if each["standing"] == "held"} >= {"calm", *scenarios}
    with Client("127.0.0.1", kafka.port) as beside:
        assert [each.name for each in beside.call(MetadataRequest(None)).topics if not each.name.startswith("__")] == []
        assert beside.call(ListGroupsRequest()).groups == []
