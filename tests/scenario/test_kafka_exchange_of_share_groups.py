"""One data directory for two brokers in turn while a share group is at work: Apache Kafka on what Ottla wrote, and the reverse.

The next broker knows the group's member, and delivers again exactly what was not accepted: released records with their next delivery count,
and records that were acquired without an answer with the same count as before, because an acquisition is not persisted. A broker that stops
cleanly may still release these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from client_compat.kafka.reference import ReferenceBroker
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from ottla.spark_jobs.audit import audit
from tests.support.apache_kafka import jars_or_skip
from tests.support.group_calls import wait_until
from tests.support.running_broker import HOST, RunningBroker
from tests.support.share_calls import ACCEPT, RELEASE, ShareMember, acknowledged, configure
from tests.support.share_group_calls import beat, described
from tests.support.topic_calls import create, describe, produce

TIMEOUT_S = 20
BATCH = 10
MEMBER = "m"


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    jars_or_skip()


class ShareWork:
    """The share group's member: its epoch, and for each record that it has not accepted the possible next delivery counts. With `kill`,
    brokers are killed instead of stopped."""

    def __init__(self, *, kill: bool) -> None:
        self.kill = kill
        self.epoch = 0
        self.produced = 0
        self.counts: dict[int, set[int]] = {}

    def begin(self, client: Client) -> None:
        """Join the group, and work on the first records."""
        configure(client, "g", share__assignment__interval__ms="0", share__auto__offset__reset="earliest")
        create(client, "t")
        wait_until(
            lambda: self._beat(client) and bool(described(client).members[0].assignment.topic_partitions), "it is assigned", TIMEOUT_S
        )
        self.work(client)

    def go_on(self, client: Client) -> None:
        """Check that the broker knows the member in its epoch, and delivers the records that it has not accepted; accept them, and
        work on."""
        wait_until(lambda: all(part.leader_id == 1 for part in describe(client, "t")[0].partitions), "the topic is led", TIMEOUT_S)
        epoch = self.epoch
        wait_until(lambda: self._beat(client), "the group's coordinator knows the member", TIMEOUT_S)
        assert self.epoch == epoch
        member = ShareMember(client, MEMBER)
        self._fetch(member)
        offsets = sorted(self.counts)
        assert acknowledged(member.acknowledge((offsets[0], offsets[-1], [ACCEPT]))) == [0]
        self.work(client, member)

    def work(self, client: Client, member: ShareMember | None = None) -> None:
        """Acquire ten new records. Accept four of them, release two, and leave four without an answer."""
        assert produce(client, "t", *(b"%d" % number for number in range(BATCH))) == self.produced
        first = self.produced
        self.counts = {offset: {1} for offset in range(first, first + BATCH)}
        self.produced += BATCH
        member = member or ShareMember(client, MEMBER)
        self._fetch(member)
        assert acknowledged(member.acknowledge((first, first + 3, [ACCEPT]), (first + 4, first + 5, [RELEASE]))) == [0]
        unanswered = {1} if self.kill else {1, 2}
        self.counts = {offset: {2} if offset < first + 6 else unanswered for offset in range(first + 4, first + BATCH)}

    def end(self, broker: RunningBroker | ReferenceBroker) -> None:
        """Stop or kill the broker while the member is connected."""
        if self.kill:
            broker.kill()
        else:
            broker.stop()

    def _beat(self, client: Client) -> bool:
        (found,) = client.call(FindCoordinatorRequest(coordinator_keys=["g"]), version=6).coordinators
        if found.error_code:
            return False
        answer = beat(client, MEMBER, self.epoch, subscribed_topic_names=["t"])
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
        return bool(answer.error_code == ErrorCode.NONE)

    def _fetch(self, member: ShareMember) -> None:
        """Fetch until as many records are acquired as expected; check their offsets and their delivery counts."""
        found: dict[int, int] = {}

        def are_all_acquired() -> bool:
            response = member.fetch(max_wait_ms=500)
            partitions = [part for topic in response.responses for part in topic.partitions]
            if response.error_code or any(part.error_code for part in partitions):
                member.epoch = 0
                return False
            for one in (acquired for part in partitions for acquired in part.acquired_records):
                found.update(dict.fromkeys(range(one.first_offset, one.last_offset + 1), one.delivery_count))
            return len(found) >= len(self.counts)

        wait_until(are_all_acquired, f"{len(self.counts)} records are acquired", TIMEOUT_S)
        assert found.keys() == self.counts.keys()
        assert {offset: count for offset, count in found.items() if count not in self.counts[offset]} == {}


@pytest.fixture(params=[False, True], ids=["stopped", "killed"])
def share(request: pytest.FixtureRequest) -> ShareWork:
    return ShareWork(kill=request.param)


def test_share_group_continues_over_a_takeover_by_kafka_and_back(tmp_path: Path, share: ShareWork) -> None:
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        share.begin(client)
        share.end(ours)
    with ReferenceBroker(tmp_path / "data", static_voters=True) as kafka, Client(HOST, kafka.port) as client:
        share.go_on(client)
        share.end(kafka)
    with RunningBroker(tmp_path / "data") as again, again.client() as client:
        share.go_on(client)
    check_audit(tmp_path / "data")


def test_kafkas_share_group_continues_on_ottla_and_back(tmp_path: Path, share: ShareWork) -> None:
    with ReferenceBroker(tmp_path / "data") as kafka, Client(HOST, kafka.port) as client:
        share.begin(client)
        share.end(kafka)
    ours = RunningBroker(tmp_path / "data").start()
    with ours.client() as client:
        share.go_on(client)
        share.end(ours)
    with ReferenceBroker(tmp_path / "data") as again, Client(HOST, again.port) as client:
        share.go_on(client)
    check_audit(tmp_path / "data")


def check_audit(data: Path) -> None:
    """Check that the audit finds nothing wrong in what both brokers wrote, and counts the deliveries of three times `ShareWork.work`."""
    (found,) = audit(data, engine="duckdb").directories
    assert (found.violations, found.warnings, found.problems) == (0, 0, [])
    (each,) = found.deliveries
    assert (each.group_id, each.topic, each.start_offset, each.accepted, each.archived) == ("g", "t", 2 * BATCH + 4, 2 * BATCH + 4, 0)
    assert each.redelivered >= 4
