"""Random histories with marks in between: after a rewind, every read gives the same result as at the mark."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.core.clock import VirtualClock
from ottla.broker.storage.marks import Mark
from ottla.broker.testing.in_process import InProcessBroker, UnsyncedFiles
from ottla.broker.testing.verdict import audit_findings
from ottla.protocol.client import Client
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k37_create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.k44_incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.records.record import SimpleRecord, build_batch
from tests.support.all_reads import TOPICS, answers, requests
from tests.support.group_calls import commit, find_coordinator
from tests.support.txn_calls import Holder, find_transaction_coordinator

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "internal.segment.bytes": 2_000,
}


class Moment(NamedTuple):
    """A mark, the responses to all reads at that time, and the producer of the open transaction."""

    mark: Mark
    answers: list[tuple[str, Any]]
    now_ms: int
    holder: Holder | None
    sequence: int


@dataclass
class Harness:
    """A broker on a virtual clock, and the marks that were set."""

    broker: InProcessBroker
    rng: random.Random
    marks: list[Moment] = field(default_factory=list)
    holder: Holder | None = None
    sequence: int = 0

    def client(self) -> Client:
        return Client("127.0.0.1", self.broker.port, client_id="test")

    def topic(self) -> str:
        return self.rng.choice(TOPICS)

    # Operations may fail, for instance on a topic that does not exist: the answers at a mark show what happened.

    def create(self, client: Client) -> None:
        client.call(CreateTopicsRequest([CreatableTopic(self.topic(), self.rng.choice([1, 2]), 1)]))

    def delete(self, client: Client) -> None:
        client.call(DeleteTopicsRequest([DeleteTopicState(self.topic())]), 6)

    def add_partition(self, client: Client) -> None:
        client.call(CreatePartitionsRequest([CreatePartitionsTopic(self.topic(), 3, None)], 1_000))

    def produce(self, client: Client) -> None:
        self._send(client, self.topic(), None)

    def _send(self, client: Client, topic: str, holder: Holder | None) -> None:
        records = [SimpleRecord(b"k", bytes(self.rng.randrange(800)), self.broker.clock.now_ms())]
        who = {} if holder is None else {"producer_id": holder.producer_id, "producer_epoch": holder.epoch, "base_sequence": self.sequence}
        batch = build_batch(records, transactional=holder is not None, **who)
        data = TopicProduceData(topic, partition_data=[PartitionProduceData(0, batch)])
        answer = client.call(ProduceRequest(None if holder is None else "tx", -1, 10_000, [data]), 9)
        if holder is not None and not answer.responses[0].partition_responses[0].error_code:
            self.sequence += 1

    def transact(self, client: Client) -> None:
        """Begin, continue or end a transaction."""
        if self.holder is None:
            find_transaction_coordinator(client)
            made = client.call(InitProducerIdRequest("tx", 60_000))
            if made.error_code:  # the transaction of a producer that was lost with its epoch is being aborted
                return
            self.holder, self.sequence = Holder(client, "tx", made.producer_id, made.producer_epoch), 0
        self.holder.client = client
        topic = self.topic()
        if self.rng.random() < 0.6 and self.holder.add((topic, 0)) == [0]:
            self._send(client, topic, self.holder)
        else:
            self.holder.end(commit=self.rng.random() < 0.5, version=4)
            self.holder = None

    def commit(self, client: Client) -> None:
        find_coordinator(client)
        commit(client, self.rng.randrange(100), topic=self.topic(), group_id=self.rng.choice("gh"))

    def delete_records(self, client: Client) -> None:
        topics = [DeleteRecordsTopic(self.topic(), [DeleteRecordsPartition(0, self.rng.choice([-1, 1]))])]
        client.call(DeleteRecordsRequest(topics, 1_000), 2)

    def configure(self, client: Client) -> None:
        kind, name, key = self.rng.choice(
            [(2, self.topic(), "retention.ms"), (4, "1", "log.cleaner.threads"), (4, "", "message.max.bytes")]
        )
        change = AlterableConfig(key, 0, str(self.rng.randrange(1, 3)))
        client.call(IncrementalAlterConfigsRequest([AlterConfigsResource(kind, name, [change])]))

    def allow(self, client: Client) -> None:
        client.call(CreateAclsRequest([AclCreation(2, self.topic(), 3, f"User:{self.rng.choice('ab')}", "*", 3, 3)]))

    def limit(self, client: Client) -> None:
        entry = EntryData(
            [EntityData("user", self.rng.choice("ab"))], [OpData("producer_byte_rate", float(self.rng.randrange(1, 9) << 30))]
        )
        client.call(AlterClientQuotasRequest([entry]))

    def add_user(self, client: Client) -> None:
        user = ScramCredentialUpsertion(self.rng.choice("ab"), 1, 4096, b"salt", self.rng.randbytes(32))
        client.call(AlterUserScramCredentialsRequest([], [user]))

    def advance(self, _: Client) -> None:
        self.broker.clock.advance(timedelta(seconds=self.rng.choice([1, 40, 90])))

    def restart(self, _: Client) -> None:
        self.broker.restart(kill=self.rng.random() < 0.5)

    def mark(self, client: Client) -> None:
        mark = self.broker.mark()
        self.marks.append(Moment(mark, answers(client), self.broker.clock.now_ms(), self.holder, self.sequence))

    def rewind(self, _: Client) -> None:
        if not self.marks:
            return
        moment = self.rng.choice(self.marks)
        self.broker.rewind(moment.mark)
        assert self.broker.clock.now_ms() == moment.now_ms
        with self.client() as client:
            for then, now in zip(moment.answers, answers(client), strict=True):
                assert now == then
        self.holder, self.sequence = moment.holder, moment.sequence  # its transaction goes on


WRITES: list[Callable[[Harness, Client], None]] = [
    Harness.create, Harness.delete, Harness.add_partition, Harness.produce, Harness.produce, Harness.produce, Harness.transact,
    Harness.transact, Harness.transact, Harness.commit, Harness.delete_records, Harness.configure, Harness.allow, Harness.limit,
    Harness.add_user, Harness.advance, Harness.restart,
]  # fmt: skip
STEPS = st.lists(st.sampled_from([*WRITES, Harness.mark, Harness.rewind, Harness.rewind]), min_size=5, max_size=25)


def test_at_least_forty_reads_are_compared() -> None:
    assert len(requests()) >= 40


@settings(max_examples=8, deadline=None)
@given(steps=STEPS, seed=st.integers(0, 1 << 32))
def test_every_read_after_a_rewind_answers_as_at_the_mark(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Callable[[Harness, Client], None]], seed: int
) -> None:
    path = tmp_path_factory.mktemp("rewind") / "data"
    broker = InProcessBroker(path, SETTINGS, clock=VirtualClock())
    broker.files = UnsyncedFiles()
    with broker:
        harness = Harness(broker, random.Random(seed))
        for name in TOPICS:
            broker.topics.create(name, partitions=2)
        broker.restart()  # its settings show port 0 before, and the chosen port from now on
        for step in [*steps, Harness.mark, Harness.produce, Harness.transact, Harness.rewind]:
            with harness.client() as client:
                step(harness, client)
    assert audit_findings([path], TOPICS) == []
    assert [each.name for each in path.parent.iterdir()] == ["data"]


def test_rewind_rejects_a_mark_of_another_broker_or_an_earlier_run(tmp_path: Path) -> None:
    with InProcessBroker(tmp_path / "a") as one, InProcessBroker(tmp_path / "b") as other:
        mark = one.mark()
        with pytest.raises(ValueError, match="by another broker"):
            other.rewind(mark)
        one.rewind(mark)
        one.stop()
        one.start()
        with pytest.raises(ValueError, match="before this one was stopped"):
            one.rewind(mark)
