"""Random consistent metadata logs: nothing changes before it is created, or after it is removed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

from ottla.broker.cluster.features import METADATA_VERSION
from ottla.broker.cluster.image import ELR_VERSION, MIGRATING
from ottla.broker.cluster.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ottla.broker.cluster.record_frames import encode_record
from ottla.broker.cluster.record_versions import version_of

NODES = range(4)
NAMES = ("a", "b", "c.d", "__consumer_offsets")
USERS = ("ann", "bob")
BEGINNING = 4
"""Number of records with which each log begins: the levels of two features, and a credential for each SCRAM mechanism that is never
removed."""


class LogOfMetadata:
    """Generates one valid record after the other, and keeps only the state that it needs for that."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.topics: dict[str, bytes] = {}
        self.partitions: dict[tuple[bytes, int], int] = {}
        """The number of replicas of each partition, by topic id and partition index."""
        self.brokers: dict[int, int] = {}
        self.acls: list[bytes] = []

    def records(self, count: int) -> list[MetadataRecord]:
        """Return a valid log: the records in `BEGINNING`, and `count` random ones."""
        kinds: list[Callable[[], MetadataRecord]] = [
            *(
                self.topic,
                self.partition,
                self.partition,
                self.partition,
                self.change,
                self.change,
                self.change,
                self.change,
                self.remove_topic,
            ),
            *(
                self.clear_elr,
                self.register,
                self.change_registration,
                self.change_registration,
                self.unregister,
                self.fence,
                self.controller,
            ),
            *(self.config, self.config, self.quota, self.quota, self.acl, self.remove_acl, self.credential, self.remove_credential),
            *(self.token, self.remove_token, self.producer_ids, self.feature, self.nothing),
        ]
        first: list[MetadataRecord] = [FeatureLevelRecord(METADATA_VERSION, 30), FeatureLevelRecord(ELR_VERSION, 1)]
        first += [UserScramCredentialRecord("root", mechanism, b"salt", b"stored", b"server", 4096) for mechanism in (1, 2)]
        return first + [self.random.choice(kinds)() for _ in range(count)]

    def uuid(self) -> bytes:
        return self.random.randbytes(16)

    def some(self, most: int = 3) -> list[int]:
        return self.random.sample(NODES, self.random.randint(0, most))

    def maybe(self, value: list[int]) -> list[int] | None:
        return value if self.random.random() < 0.5 else None

    def directories(self, count: int) -> list[bytes]:
        return self.random.choice([[MIGRATING] * count, [self.uuid() for _ in range(count)]])

    def nothing(self) -> MetadataRecord:
        return self.random.choice([NoOpRecord(), ZkMigrationStateRecord(1), FeatureLevelRecord("kraft.version", 1)])

    def topic(self) -> MetadataRecord:
        free = [name for name in NAMES if name not in self.topics]
        if not free:
            return self.remove_topic()
        name = self.random.choice(free)
        self.topics[name] = self.uuid()
        return TopicRecord(name, self.topics[name])

    def remove_topic(self) -> MetadataRecord:
        if not self.topics:
            return self.topic()
        topic_id = self.topics.pop(self.random.choice(sorted(self.topics)))
        self.partitions = {place: replicas for place, replicas in self.partitions.items() if place[0] != topic_id}
        return RemoveTopicRecord(topic_id)

    def partition(self) -> MetadataRecord:
        if not self.topics:
            return self.topic()
        topic_id, index = self.topics[self.random.choice(sorted(self.topics))], self.random.randrange(4)
        replicas = self.some() or [1]
        self.partitions[topic_id, index] = len(replicas)
        return PartitionRecord(
            index,
            topic_id,
            replicas=replicas,
            isr=self.some(),
            removing_replicas=self.some(1),
            adding_replicas=self.some(1),
            leader=self.random.randint(-1, 3),
            leader_recovery_state=self.random.randint(0, 1),
            leader_epoch=self.random.randrange(9),
            partition_epoch=self.random.randrange(9),
            directories=self.directories(len(replicas)),
            eligible_leader_replicas=self.maybe(self.some()),
            last_known_elr=self.maybe(self.some(1)),
        )

    def change(self) -> MetadataRecord:
        if not self.partitions:
            return self.partition()
        topic_id, index = place = self.random.choice(sorted(self.partitions))
        replicas = self.maybe(self.some() or [2])
        directories = None
        if replicas is not None:
            self.partitions[place] = len(replicas)
            directories = self.directories(len(replicas))
        elif self.random.random() < 0.3:
            directories = self.directories(self.partitions[place])
        return PartitionChangeRecord(
            index,
            topic_id,
            isr=self.maybe(self.some()),
            leader=self.random.randint(-2, 3),
            replicas=replicas,
            removing_replicas=self.maybe(self.some(1)),
            adding_replicas=self.maybe(self.some(1)),
            leader_recovery_state=self.random.randint(-1, 1),
            directories=directories,
            eligible_leader_replicas=self.maybe(self.some()),
            last_known_elr=self.maybe(self.some(1)),
        )

    def clear_elr(self) -> MetadataRecord:
        return ClearElrRecord(self.random.choice(["", *sorted(self.topics)]))

    def register(self) -> MetadataRecord:
        broker = self.random.choice(NODES)
        self.brokers[broker] = self.random.randrange(1 << 40)
        return RegisterBrokerRecord(
            broker,
            self.random.random() < 0.1,
            self.uuid(),
            self.brokers[broker],
            end_points=[Endpoint(name, f"h{broker}", 9092, 0) for name in ("INSIDE", "OUTSIDE")[: self.random.randint(0, 2)]],
            features=[FeatureRange("metadata.version", 7, 30), FeatureRange("group.version", 0, 1)][: self.random.randint(0, 2)],
            rack=self.random.choice([None, "r"]),
            fenced=self.random.random() < 0.5,
            in_controlled_shutdown=self.random.random() < 0.2,
            log_dirs=[self.uuid() for _ in range(self.random.randint(0, 3))],
            cordoned_log_dirs=self.random.choice([None, [], [self.uuid()]]),
        )

    def unregister(self) -> MetadataRecord:
        if not self.brokers:
            return self.register()
        broker = self.random.choice(sorted(self.brokers))
        return UnregisterBrokerRecord(broker, self.brokers.pop(broker))

    def change_registration(self) -> MetadataRecord:
        if not self.brokers:
            return self.register()
        broker = self.random.choice(sorted(self.brokers))
        return BrokerRegistrationChangeRecord(
            broker,
            self.brokers[broker],
            fenced=self.random.randint(-1, 1),
            in_controlled_shutdown=self.random.randint(0, 1),
            log_dirs=[self.uuid() for _ in range(self.random.randint(0, 2))],
            cordoned_log_dirs=self.random.choice([None, [], [self.uuid()]]),
        )

    def fence(self) -> MetadataRecord:
        if not self.brokers:
            return self.register()
        broker = self.random.choice(sorted(self.brokers))
        return self.random.choice([FenceBrokerRecord, UnfenceBrokerRecord])(broker, self.brokers[broker])

    def controller(self) -> MetadataRecord:
        node = self.random.choice(NODES)
        return RegisterControllerRecord(
            node, self.uuid(), False, [Endpoint("CONTROLLER", "h", 9093, 0)], [FeatureRange("kraft.version", 0, 1)]
        )

    def config(self) -> MetadataRecord:
        kind, name = self.random.choice([(2, "a"), (2, "b"), (4, ""), (4, "1"), (32, "g")])
        key = {2: "retention.ms", 4: "x", 32: "consumer.session.timeout.ms"}[kind]
        other = {2: "segment.bytes", 4: "y", 32: "consumer.heartbeat.interval.ms"}[kind]
        return ConfigRecord(kind, name, self.random.choice([key, other]), self.random.choice([None, "1", "2"]))

    def quota(self) -> MetadataRecord:
        user = QuotaEntity("user", self.random.choice([None, "ann"]))
        client = QuotaEntity("client-id", self.random.choice([None, "c"]))
        entity = self.random.choice([[user], [client], [user, client], [client, user], [QuotaEntity("ip", "1.2.3.4")]])
        key = self.random.choice(["producer_byte_rate", "consumer_byte_rate"])
        return ClientQuotaRecord(entity, key, float(self.random.randrange(9)), self.random.random() < 0.3)

    def acl(self) -> MetadataRecord:
        self.acls.append(self.uuid())
        return AccessControlEntryRecord(self.acls[-1], 2, "a", 3, "User:ann", "*", 3, 3)

    def remove_acl(self) -> MetadataRecord:
        if not self.acls:
            return self.acl()
        return RemoveAccessControlEntryRecord(self.acls.pop(self.random.randrange(len(self.acls))))

    def credential(self) -> MetadataRecord:
        name, mechanism = self.random.choice(USERS), self.random.randint(1, 2)
        return UserScramCredentialRecord(name, mechanism, self.uuid(), self.uuid(), self.uuid(), 4096)

    def remove_credential(self) -> MetadataRecord:
        return RemoveUserScramCredentialRecord(self.random.choice(USERS), self.random.randint(1, 2))

    def token(self) -> MetadataRecord:
        renewers = [f"User:{name}" for name in USERS[: self.random.randint(0, 2)]]
        return DelegationTokenRecord("User:ann", "User:bob", renewers, 1, 3, self.random.randrange(3), self.random.choice("xyz"))

    def remove_token(self) -> MetadataRecord:
        return RemoveDelegationTokenRecord(self.random.choice("xyz"))

    def producer_ids(self) -> MetadataRecord:
        return ProducerIdsRecord(1, 5, self.random.randrange(9) * 1000)

    def feature(self) -> MetadataRecord:
        return FeatureLevelRecord(self.random.choice(["group.version", "transaction.version"]), self.random.randint(0, 2))


def cut(records: list[MetadataRecord], seed: int) -> list[list[MetadataRecord]]:
    """Split the records into pieces of random lengths (from `seed`), and return the pieces in order."""
    source, pieces, at = random.Random(seed), [], 0
    while at < len(records):
        length = source.randint(1, 9)
        pieces.append(records[at : at + length])
        at += length
    return pieces


def as_lines(seed: int, logs: int, count: int) -> str:
    """Return `count` random logs in the format that `client_compat/kafka/MetadataImages.java` reads.

    Each log is divided into deltas. A delta ends at least after the records of BEGINNING and before each topic removal, because Kafka's
    image depends on the division there: a `ScramDelta` loses a credential that is added after the mechanism's only credential was removed,
    and a `ConfigurationsDelta` keeps a removed topic's settings if they were set in the same delta.
    """
    lines: list[str] = []
    for each in range(seed, seed + logs):
        records = LogOfMetadata(each).records(count)
        for piece in [records[:BEGINNING], *cut(records[BEGINNING:], each)]:
            for record in piece:
                lines += ["apply"] if isinstance(record, RemoveTopicRecord) else []
                lines.append(encode_record(record, version_of(record, 30)).hex())
            lines.append("apply")
        lines.append("image")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_lines(*map(int, sys.argv[1:4])))
