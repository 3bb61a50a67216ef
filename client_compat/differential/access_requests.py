"""Random requests about a few topics, groups and transactional ids, some of which do not exist. Each API has a maker: a function that
returns a random request of this API.

Rules:
- Both brokers get the same request, except for topic ids, because each broker has its own.
- Requests that would block or whose responses depend on chance are avoided: no request joins a group, and topics are created with
  validate_only.
- A maker whose request changes something also returns a function that undoes the change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from client_compat.differential.probe import Probe, Versions
from client_compat.differential.scenarios.common import UNKNOWN_ID, batch, create, until
from ottla.protocol.messages import k00_produce as k00
from ottla.protocol.messages import k01_fetch as k01
from ottla.protocol.messages import k02_list_offsets as k02
from ottla.protocol.messages import k03_metadata as k03
from ottla.protocol.messages import k08_offset_commit as k08
from ottla.protocol.messages import k09_offset_fetch as k09
from ottla.protocol.messages import k10_find_coordinator as k10
from ottla.protocol.messages import k11_join_group as k11
from ottla.protocol.messages import k12_heartbeat as k12
from ottla.protocol.messages import k13_leave_group as k13
from ottla.protocol.messages import k14_sync_group as k14
from ottla.protocol.messages import k15_describe_groups as k15
from ottla.protocol.messages import k16_list_groups as k16
from ottla.protocol.messages import k19_create_topics as k19
from ottla.protocol.messages import k20_delete_topics as k20
from ottla.protocol.messages import k21_delete_records as k21
from ottla.protocol.messages import k22_init_producer_id as k22
from ottla.protocol.messages import k23_offset_for_leader_epoch as k23
from ottla.protocol.messages import k24_add_partitions_to_txn as k24
from ottla.protocol.messages import k25_add_offsets_to_txn as k25
from ottla.protocol.messages import k26_end_txn as k26
from ottla.protocol.messages import k27_write_txn_markers as k27
from ottla.protocol.messages import k28_txn_offset_commit as k28
from ottla.protocol.messages import k29_describe_acls as k29
from ottla.protocol.messages import k30_create_acls as k30
from ottla.protocol.messages import k31_delete_acls as k31
from ottla.protocol.messages import k32_describe_configs as k32
from ottla.protocol.messages import k33_alter_configs as k33
from ottla.protocol.messages import k35_describe_log_dirs as k35
from ottla.protocol.messages import k37_create_partitions as k37
from ottla.protocol.messages import k42_delete_groups as k42
from ottla.protocol.messages import k44_incremental_alter_configs as k44
from ottla.protocol.messages import k47_offset_delete as k47
from ottla.protocol.messages import k48_describe_client_quotas as k48
from ottla.protocol.messages import k49_alter_client_quotas as k49
from ottla.protocol.messages import k50_describe_user_scram_credentials as k50
from ottla.protocol.messages import k51_alter_user_scram_credentials as k51
from ottla.protocol.messages import k60_describe_cluster as k60
from ottla.protocol.messages import k61_describe_producers as k61
from ottla.protocol.messages import k65_describe_transactions as k65
from ottla.protocol.messages import k66_list_transactions as k66
from ottla.protocol.messages import k68_consumer_group_heartbeat as k68
from ottla.protocol.messages import k69_consumer_group_describe as k69
from ottla.protocol.messages import k74_list_config_resources as k74
from ottla.protocol.messages import k75_describe_topic_partitions as k75
from ottla.protocol.messages import k76_share_group_heartbeat as k76
from ottla.protocol.messages import k77_share_group_describe as k77
from ottla.protocol.messages import k78_share_fetch as k78
from ottla.protocol.messages import k79_share_acknowledge as k79
from ottla.protocol.messages import k83_initialize_share_group_state as k83
from ottla.protocol.messages import k84_read_share_group_state as k84
from ottla.protocol.messages import k85_write_share_group_state as k85
from ottla.protocol.messages import k86_delete_share_group_state as k86
from ottla.protocol.messages import k87_read_share_group_state_summary as k87
from ottla.protocol.messages import k88_streams_group_heartbeat as k88
from ottla.protocol.messages import k89_streams_group_describe as k89
from ottla.protocol.messages import k90_describe_share_group_offsets as k90
from ottla.protocol.messages import k91_alter_share_group_offsets as k91
from ottla.protocol.messages import k92_delete_share_group_offsets as k92
from ottla.protocol.messages.streams_group import Subtopology, TopicInfo
from ottla.protocol.schema import Message

FIRST_PARTITIONS: Final[Mapping[str, int]] = {"a1": 1, "a2": 2, "b1": 1}
TOPICS: Final = tuple(FIRST_PARTITIONS)
ASKED: Final = (*TOPICS, "a1", "b1", "nope", "__consumer_offsets")
GROUPS: Final = ("g1", "g2", "g3", "")
TRANSACTIONAL: Final = ("x1", "x2", "y")
OF_NOBODY: Final[Mapping[str, bytes]] = {"nope": UNKNOWN_ID, "__consumer_offsets": b"\x08" * 16}
"""Topic ids that a request uses for topics whose id is unknown, by topic name. No topic has these ids."""
NO_ID: Final = bytes(16)


@dataclass(slots=True)
class Side:
    """The topic ids at one of the compared brokers, by topic name. A request that names topics by id therefore differs between the
    brokers."""

    ids: dict[str, bytes] = field(default_factory=dict)

    def id(self, name: str) -> bytes:
        """Return the id of the topic `name` at this broker, or an id that no topic has if the topic does not exist."""
        return self.ids.get(name, OF_NOBODY.get(name, UNKNOWN_ID))


Changes = Callable[[Probe, Side, Any], None]


class Draw(NamedTuple):
    """A random request: a function that makes it for a side (a broker with its own topic ids), its version, and the function that undoes
    its changes, if any."""

    request: Callable[[Side], Message]
    version: int
    changes: Changes | None = None


Make = Callable[[Random, Versions], Draw | None]
MAKERS: list[Make] = []


def _maker(api: int, first: int = 0, last: int = 99) -> Callable[[Callable[[Random, int], Any]], None]:
    """Return a decorator that registers a maker: a function that returns a random request of an API, in a version from `first` to `last`.

    A maker returns a request, or a function that returns the request for a `Side` (a broker's topic ids). It may return either of them
    together with a function that undoes the request's changes.
    """

    def add(make: Callable[[Random, int], Any]) -> None:
        def draw(random: Random, versions: Versions) -> Draw | None:
            if api not in versions:
                return None
            low, high = max(first, versions[api][0]), min(last, versions[api][1])
            version = random.randint(low, high)
            made = make(random, version)
            if isinstance(made, Message):
                return Draw(lambda _: made, version)
            request, changes = made if isinstance(made, tuple) else (made, None)
            return Draw(request, version, changes)

        MAKERS.append(draw)

    return add


def _topics(random: Random, most: int = 3) -> list[str]:
    return random.sample(sorted(set(ASKED)), random.randint(1, most))


def _flag(random: Random) -> bool:
    return random.random() < 0.5


@_maker(0, 3)
def _produce(random: Random, version: int) -> Any:
    names = [name for name in _topics(random) if not name.startswith("__")] or ["a1"]
    transactional = random.random() < 0.2
    fields: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0, "transactional": True} if transactional else {}
    records, transactional_id = batch(b"v", **fields), random.choice((None, *TRANSACTIONAL)) if transactional else None

    replaced = [batch(b"r", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)] if random.random() < 0.1 else []

    def request(side: Side) -> Message:
        partitions = [k00.PartitionProduceData(0, each) for each in (*replaced, records)]
        topics = [k00.TopicProduceData(name, side.id(name), partitions) for name in names]
        return k00.ProduceRequest(transactional_id, -1, 5_000, topics)

    return request


def _read(name: str) -> k01.FetchPartition:
    """Return the element of a Fetch request for partition 0 of the topic `name`. It reads from offset 0. In a coordinator topic it reads
    from offset 99, because the brokers write different records to these topics."""
    return k01.FetchPartition(99 if name.startswith("__") else 0, -1, 0, -1, -1, 1 << 20)


@_maker(1, 4)
def _fetch(random: Random, version: int) -> Any:
    names, replica = _topics(random), 5 if random.random() < 0.1 else -1
    if replica >= 0:
        names = ["nope"]  # another scenario compares how a fetch with an unknown replica id is rejected for existing topics

    def request(side: Side) -> Message:
        topics = [k01.FetchTopic(name, side.id(name), [_read(name)]) for name in names]
        state = k01.ReplicaState(replica, -1)
        return k01.FetchRequest(None, replica, state, 0, 1, 1 << 20, 0, 0, -1, topics)

    return request


@_maker(2, 1)
def _list_offsets(random: Random, version: int) -> Any:
    return k02.ListOffsetsRequest(
        -1, 0, [k02.ListOffsetsTopic(name, [k02.ListOffsetsPartition(0, -1, -2)]) for name in _topics(random)], 5_000
    )


@_maker(3, 1)
def _metadata(random: Random, version: int) -> Any:
    flags = (False, _flag(random), _flag(random))
    if random.random() < 0.3:
        return k03.MetadataRequest(None, *flags)
    names = _topics(random)
    if version >= 12 and _flag(random):
        return lambda side: k03.MetadataRequest([k03.MetadataRequestTopic(side.id(name), None) for name in names], *flags)
    return k03.MetadataRequest([k03.MetadataRequestTopic(NO_ID, name) for name in names], *flags)


@_maker(3, 4)
def _metadata_that_creates(random: Random, version: int) -> Any:
    name = random.choice(("a", "b", "nope", "z")) + f"-new-{random.getrandbits(40)}"
    request = k03.MetadataRequest([k03.MetadataRequestTopic(NO_ID, name)], True, False, _flag(random))

    def away(admin: Probe, _: Side, answer: k03.MetadataResponse) -> None:
        if answer.topics[0].error_code != 3:
            return
        metadata_request = k03.MetadataRequest([k03.MetadataRequestTopic(NO_ID, name)], False)
        for _turn in until(f"{name} is there"):
            if admin.ask_unrecorded(metadata_request, 9).topics[0].error_code == 0:
                break
        admin.ask_unrecorded(k20.DeleteTopicsRequest(topic_names=[name], timeout_ms=5_000), 5)
        for _turn in until(f"{name} is gone"):
            if admin.ask_unrecorded(metadata_request, 9).topics[0].error_code == 3:
                break

    return (lambda _: request), away


@_maker(8, 2)
def _offset_commit(random: Random, version: int) -> Any:
    group, names = random.choice(GROUPS), _topics(random) + ([""] if version < 10 and random.random() < 0.1 else [])

    def request(side: Side) -> Message:
        topics = [k08.OffsetCommitRequestTopic(name, side.id(name), [k08.OffsetCommitRequestPartition(0, 3, -1, "")]) for name in names]
        return k08.OffsetCommitRequest(group, -1, "", None, -1, topics)

    return request


@_maker(9, 1)
def _offset_fetch(random: Random, version: int) -> Any:
    everything = version >= 2 and random.random() < 0.3
    groups, names = random.sample(GROUPS[:3], random.randint(1, 3)), _topics(random)
    if version < 8:
        return k09.OffsetFetchRequest(groups[0], None if everything else [k09.OffsetFetchRequestTopic(name, [0]) for name in names])

    def request(side: Side) -> Message:
        topics = None if everything else [k09.OffsetFetchRequestTopics(name, side.id(name), [0]) for name in names]
        return k09.OffsetFetchRequest(groups=[k09.OffsetFetchRequestGroup(group, None, -1, topics) for group in groups])

    return request


@_maker(10, 1)
def _find_coordinator(random: Random, version: int) -> Any:
    kind = random.choice((0, 1))
    keys = random.sample(GROUPS[:3] if kind == 0 else TRANSACTIONAL, random.randint(1, 3))
    return k10.FindCoordinatorRequest(keys[0], kind, keys)


@_maker(11)
def _join_group(random: Random, version: int) -> Any:
    return k11.JoinGroupRequest(
        random.choice(GROUPS), 10_000, 10_000, "nobody", None, "consumer", [k11.JoinGroupRequestProtocol("range", b"")]
    )


@_maker(14)
def _sync_group(random: Random, version: int) -> Any:
    protocol = (None, None) if random.random() < 0.2 else ("consumer", "range")
    return k14.SyncGroupRequest(random.choice(GROUPS), 1, "nobody", None, *protocol)


@_maker(19, 2)
def _create_topics(random: Random, version: int) -> Any:
    names = random.sample(("a1", "a-x", "nope", "b-x", "__cluster_metadata", "a/b"), 2) + (
        ["twice", "twice"] if random.random() < 0.2 else []
    )
    return k19.CreateTopicsRequest([k19.CreatableTopic(name, 1, 1) for name in names], 5_000, validate_only=True)


@_maker(20, 1)
def _delete_topics(random: Random, version: int) -> Any:
    names = [name for name in _topics(random) if not name.startswith("__")] or ["a1"]
    by_id = version >= 6 and _flag(random)

    def request(side: Side) -> Message:
        states = [k20.DeleteTopicState(None, side.id(name)) if by_id else k20.DeleteTopicState(name, NO_ID) for name in names]
        return k20.DeleteTopicsRequest(states if version >= 6 else [], [] if version >= 6 else names, 5_000)

    def again(admin: Probe, side: Side, answer: k20.DeleteTopicsResponse) -> None:
        for name in names:
            if any(topic.error_code == 0 and topic.name == name for topic in answer.responses) and name in TOPICS:
                for _turn in until(f"{name} is gone"):
                    metadata_request = k03.MetadataRequest([k03.MetadataRequestTopic(NO_ID, name)], False)
                    if admin.ask_unrecorded(metadata_request, 9).topics[0].error_code == 3:
                        break
                side.ids[name] = create(admin, name, FIRST_PARTITIONS[name])

    return request, again


@_maker(21)
def _delete_records(random: Random, version: int) -> Any:
    names = _topics(random)
    return k21.DeleteRecordsRequest([k21.DeleteRecordsTopic(name, [k21.DeleteRecordsPartition(0, 0)]) for name in names], 5_000)


@_maker(23, 2)
def _offset_for_leader_epoch(random: Random, version: int) -> Any:
    topics = [k23.OffsetForLeaderTopic(name, [k23.OffsetForLeaderPartition(0, -1, 0)]) for name in _topics(random)]
    return k23.OffsetForLeaderEpochRequest(-2, topics)


@_maker(24)
def _add_partitions(random: Random, version: int) -> Any:
    topics = [k24.AddPartitionsToTxnTopic(name, [0]) for name in _topics(random)]
    transactional_id = random.choice(TRANSACTIONAL)
    if version >= 4:
        return k24.AddPartitionsToTxnRequest([k24.AddPartitionsToTxnTransaction(transactional_id, 4_000, 3, _flag(random), topics)])
    return k24.AddPartitionsToTxnRequest([], transactional_id, 4_000, 3, topics)


@_maker(28)
def _txn_offset_commit(random: Random, version: int) -> Any:
    topics = [
        k28.TxnOffsetCommitRequestTopic(name, bytes(16), [k28.TxnOffsetCommitRequestPartition(0, 1, -1, "")]) for name in _topics(random)
    ]
    return k28.TxnOffsetCommitRequest(random.choice(TRANSACTIONAL), random.choice(GROUPS[:3]), 4_000, 3, -1, "", None, topics)


def _filter(random: Random) -> tuple[Any, ...]:
    return (
        random.choice((1, 2, 3, 4, 5)),
        random.choice((None, "a1", "*", "a")),
        random.choice((1, 2, 3, 4)),
        random.choice((None, None, "User:ann", "User:*")),
        random.choice((None, None, "*")),
        random.choice((1, 1, 2, 3, 8)),
        random.choice((1, 1, 2, 3)),
    )


@_maker(30, 1)
def _create_acls(random: Random, version: int) -> Any:
    wrong = random.choice(
        (
            k30.AclCreation(4, "other", 3, "User:ann", "*", 3, 3),
            k30.AclCreation(2, "", 3, "User:ann", "*", 3, 3),
            k30.AclCreation(2, "zz", 3, "ann", "*", 3, 3),
            k30.AclCreation(2, "zz", 1, "User:ann", "*", 3, 3),
            k30.AclCreation(2, "zz", 3, "User:ann", "*", 1, 3),
            k30.AclCreation(0, "zz", 3, "User:ann", "*", 3, 3),
            k30.AclCreation(2, "zz", 3, "User:nobody", "*", 3, 3),
        )
    )
    return k30.CreateAclsRequest([wrong])


@_maker(31, 1)
def _delete_acls(random: Random, version: int) -> Any:
    # only ACLs that `_create_acls` may have made; deleting others would change the requests that follow
    found = (2, "zz", 3, None, None, 1, 1)
    return k31.DeleteAclsRequest([k31.DeleteAclsFilter(*random.choice((found, (0, *found[1:]), (9, *found[1:]))))])


def _settings(random: Random) -> tuple[int, str, str, str]:
    """Return random arguments for a request about configurations: a resource type, a resource name, the name of one of its settings, and a
    value."""
    topic = (2, random.choice(ASKED), "retention.ms", "-1")
    group = (32, random.choice(("g1", "g2")), "consumer.session.timeout.ms", "50000")
    broker = (4, random.choice(("", "1", "1", "7")), "log.cleaner.threads", random.choice(("1", "x")))
    logger = (8, "1", "no.such.logger", "INFO")
    metrics = (16, "m", "interval.ms", "5000")
    return random.choice((topic, topic, group, broker, logger, metrics))


def _values(random: Random, value: str) -> list[str | None]:
    """Return the values that a request sets one setting to. Mostly this is `value` once; sometimes null, or `value` twice, so that the
    request names the setting twice."""
    chosen: list[str | None] = [value] * random.choice((1, 1, 1, 2))
    return [None] if random.random() < 0.2 else chosen


@_maker(32, 1)
def _describe_configs(random: Random, version: int) -> Any:
    resources = {each[:2]: each for each in (_settings(random) for _ in range(2)) if each[0] != 16}
    if random.random() < 0.15:
        resources[99, "x"] = (99, "x", "y", "z")
    return k32.DescribeConfigsRequest([k32.DescribeConfigsResource(kind, name, [key]) for kind, name, key, _ in resources.values()])


@_maker(33)
def _alter_configs(random: Random, version: int) -> Any:
    kind, name, key, value = _settings(random)
    configs = [k33.AlterableConfig(key, each) for each in _values(random, value)]
    return k33.AlterConfigsRequest([k33.AlterConfigsResource(kind, name, configs)], validate_only=True)


@_maker(44)
def _incremental_alter_configs(random: Random, version: int) -> Any:
    drawn = {each[:2]: each for each in (_settings(random) for _ in range(2))}
    resources = [
        k44.AlterConfigsResource(kind, name, [k44.AlterableConfig(key, 0, each) for each in _values(random, value)])
        for kind, name, key, value in drawn.values()
    ]
    if random.random() < 0.1:
        resources *= 2
    return k44.IncrementalAlterConfigsRequest(resources, validate_only=True)


@_maker(35, 2)
def _describe_log_dirs(random: Random, version: int) -> Any:
    return k35.DescribeLogDirsRequest([k35.DescribableLogDirTopic("a1", [0])])


@_maker(37)
def _create_partitions(random: Random, version: int) -> Any:
    names = [name for name in _topics(random) if not name.startswith("__")] or ["a1"]
    return k37.CreatePartitionsRequest([k37.CreatePartitionsTopic(name, 5) for name in names], 5_000, validate_only=True)


@_maker(47)
def _offset_delete(random: Random, version: int) -> Any:
    topics = [k47.OffsetDeleteRequestTopic(name, [k47.OffsetDeleteRequestPartition(0)]) for name in _topics(random)]
    return k47.OffsetDeleteRequest(random.choice(GROUPS[:3]), topics)


@_maker(49)
def _alter_quotas(random: Random, version: int) -> Any:
    entry = k49.EntryData([k49.EntityData("user", "ann")], [k49.OpData("consumer_byte_rate", 5.0)])
    return k49.AlterClientQuotasRequest([entry], validate_only=True)


@_maker(68)
def _consumer_heartbeat(random: Random, version: int) -> Any:
    names = _topics(random) if _flag(random) else None
    return k68.ConsumerGroupHeartbeatRequest(random.choice(("g1", "g5")), "nobody", 5, None, None, -1, names)


@_maker(74)
def _list_config_resources(random: Random, version: int) -> Any:
    return k74.ListConfigResourcesRequest([] if version == 0 else [random.choice((2, 4, 8, 16, 32))])


@_maker(75)
def _describe_topic_partitions(random: Random, version: int) -> Any:
    names = [] if random.random() < 0.3 else _topics(random)
    return k75.DescribeTopicPartitionsRequest([k75.TopicRequest(name) for name in names], 100, None)


SHARERS: Final = ("g1", "g5")
"""Group ids for share group requests. They are not share groups, so that even an authorized request changes nothing."""
SHARER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
STATELESS: Final = b"\x09" * 16
"""A topic id that belongs to no topic, for requests to the share coordinator."""


@_maker(76)
def _share_heartbeat(random: Random, version: int) -> Any:
    names = _topics(random) if _flag(random) else None
    return k76.ShareGroupHeartbeatRequest(random.choice(SHARERS), SHARER, 5, None, names)


@_maker(90)
def _share_offsets(random: Random, version: int) -> Any:
    topics = [k90.DescribeShareGroupOffsetsRequestTopic(name, [0]) for name in _topics(random)] if _flag(random) else None
    groups = random.sample((*SHARERS, "g2"), random.randint(1, 2))
    return k90.DescribeShareGroupOffsetsRequest([k90.DescribeShareGroupOffsetsRequestGroup(group, topics) for group in groups])


@_maker(91)
def _alter_share_offsets(random: Random, version: int) -> Any:
    topics = [k91.AlterShareGroupOffsetsRequestTopic(name, [k91.AlterShareGroupOffsetsRequestPartition(0, 1)]) for name in _topics(random)]
    return k91.AlterShareGroupOffsetsRequest(random.choice(SHARERS), topics)


@_maker(92)
def _delete_share_offsets(random: Random, version: int) -> Any:
    topics = [k92.DeleteShareGroupOffsetsRequestTopic(name) for name in _topics(random)]
    return k92.DeleteShareGroupOffsetsRequest(random.choice(SHARERS), topics)


@_maker(88)
def _streams_heartbeat(random: Random, version: int) -> Any:
    changelogs = [TopicInfo(name) for name in _topics(random)] if _flag(random) else []
    topology = k88.Topology(0, [Subtopology("0", _topics(random), state_changelog_topics=changelogs)]) if _flag(random) else None
    return k88.StreamsGroupHeartbeatRequest(random.choice(("g1", "g5")), "nobody", 5, topology=topology)


_SIMPLE: Final[Mapping[int, Callable[[Random], Message]]] = {
    12: lambda random: k12.HeartbeatRequest(random.choice(GROUPS), 1, "nobody"),
    13: lambda random: k13.LeaveGroupRequest(random.choice(GROUPS), "nobody", [k13.MemberIdentity("nobody")]),
    15: lambda random: k15.DescribeGroupsRequest(random.sample(GROUPS[:3], 2), _flag(random)),
    16: lambda random: k16.ListGroupsRequest(),
    22: lambda random: k22.InitProducerIdRequest(random.choice((None, None, *TRANSACTIONAL)), 60_000),
    25: lambda random: k25.AddOffsetsToTxnRequest(random.choice(TRANSACTIONAL), 4_000, 3, random.choice(GROUPS[:3])),
    26: lambda random: k26.EndTxnRequest(random.choice(TRANSACTIONAL), 4_000, 3, True),
    27: lambda random: k27.WriteTxnMarkersRequest([k27.WritableTxnMarker(4_000, 3, True, [k27.WritableTxnMarkerTopic("nope", [0])], 0)]),
    29: lambda random: k29.DescribeAclsRequest(*_filter(random)),
    42: lambda random: k42.DeleteGroupsRequest(random.sample(GROUPS[:3], 2)),
    48: lambda random: k48.DescribeClientQuotasRequest([k48.ComponentData(random.choice(("user", "x")), 2, None)]),
    50: lambda random: k50.DescribeUserScramCredentialsRequest([] if _flag(random) else [k50.UserName("nobody")]),
    51: lambda random: k51.AlterUserScramCredentialsRequest([k51.ScramCredentialDeletion("nobody", 1)], []),
    60: lambda random: k60.DescribeClusterRequest(_flag(random), 1),
    61: lambda random: k61.DescribeProducersRequest(
        [k61.TopicRequest(name, [0]) for name in random.sample(("a1", "b1", "nope", "a/b"), 2)]
    ),
    65: lambda random: k65.DescribeTransactionsRequest(random.sample(("x1", "y", "x9"), 2)),
    66: lambda random: k66.ListTransactionsRequest(),
    69: lambda random: k69.ConsumerGroupDescribeRequest(random.sample(("g1", "g5", "cg"), 2), _flag(random)),
    77: lambda random: k77.ShareGroupDescribeRequest(random.sample(("g1", "g5", "cg"), 2), _flag(random)),
    78: lambda random: k78.ShareFetchRequest(random.choice(SHARERS), SHARER, 5, max_wait_ms=0),
    79: lambda random: k79.ShareAcknowledgeRequest(random.choice(SHARERS), SHARER, 5),
    83: lambda random: k83.InitializeShareGroupStateRequest("g5", [k83.InitializeStateData(STATELESS, [k83.PartitionData(0, 1, 0)])]),
    84: lambda random: k84.ReadShareGroupStateRequest("g5", [k84.ReadStateData(STATELESS, [k84.PartitionData(0, 1)])]),
    85: lambda random: k85.WriteShareGroupStateRequest("g5", [k85.WriteStateData(STATELESS, [k85.PartitionData(0, 1, 1, 0)])]),
    86: lambda random: k86.DeleteShareGroupStateRequest("g5", [k86.DeleteStateData(STATELESS, [k86.PartitionData(0)])]),
    87: lambda random: k87.ReadShareGroupStateSummaryRequest("g5", [k87.ReadStateSummaryData(STATELESS, [k87.PartitionData(0, 1)])]),
    89: lambda random: k89.StreamsGroupDescribeRequest(random.sample(("g1", "g5", "cg"), 2), _flag(random)),
}
"""Makers of random requests that are the same in every version, by API key."""


def _in_any_version(make: Callable[[Random], Message]) -> Callable[[Random, int], Message]:
    return lambda random, _: make(random)


for _key, _make in _SIMPLE.items():
    _maker(_key)(_in_any_version(_make))
