"""The admin client: topics, configurations, partitions, records, offsets, groups, producers, transactions, the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from client_compat.matrix.control import ClientError
from client_compat.matrix.facades import Admin, Consumer, Record
from client_compat.matrix.membership import GroupTruth, Members, partitions_of
from client_compat.matrix.scenario import ScenarioContext, ScenarioFailed, expect, same, scenario
from client_compat.matrix.truth import until
from client_compat.support.brokers import HOST

COUNT = 10
STEP_MS = 1_000


def _word(state: object) -> str:
    """Return the letters of a group's state or type in lower case, because clients spell names such as PreparingRebalance differently."""
    return "".join(char for char in str(state or "") if char.isalpha()).lower()


def _code(results: Mapping[str, ClientError | None], name: str) -> str | None:
    error = results.get(name)
    return None if error is None else error.code


def _failure(call: Callable[[], ClientError | None]) -> ClientError | None:
    """Call `call`, an admin operation, and return the `ClientError` that it returned or raised; None if it succeeded."""
    try:
        return call()
    except ClientError as error:
        return error


@contextmanager
def _refusal(*codes: str) -> Iterator[None]:
    """Check that the operation in the context fails with one of these error codes, or with an error of the client's own (`CLIENT:…`).
    Raises `ScenarioFailed` if not."""
    try:
        yield
    except ClientError as error:
        _refused(error, *codes)
    else:
        _refused(None, *codes)


def _refused(error: ClientError | None, *codes: str) -> None:
    """Check that `error`, the result of an operation, is one of these error codes, or an error of the client's own (`CLIENT:…`). Raises
    `ScenarioFailed` if not."""
    expect(error is not None, f"it was done, where {codes[0]} was to be")
    assert error is not None
    expect(error.code in codes or error.code.startswith("CLIENT:"), f"it failed with {error}, where {codes[0]} was to be")


@scenario("Topics are created, listed, described and deleted.", quick=True)
def admin_topics(context: ScenarioContext) -> None:
    admin, (first, second) = context.admin, (context.name("admin"), context.name("admin"))
    same(admin.create_topics({first: 3, second: 1}), {first: None, second: None}, "results of the creation")
    for name, count in ((first, 3), (second, 1)):
        context.truth.wait_until_led(name, count)
    expect({first, second} <= set(admin.list_topics()), "they are not all in the list")
    described = admin.describe_topic(first)
    same([row["partition"] for row in described], [0, 1, 2], "partitions")
    expect(all([row["leader"]] == row["replicas"] == row["isr"] for row in described), f"the replicas are {described}")
    same(admin.delete_topics([first]), {first: None}, "result of the deletion")
    for _ in until("the topic is gone from the list"):
        if first not in admin.list_topics():
            break
    expect(second in admin.list_topics(), "the other topic is gone as well")


@scenario("Each topic that cannot be created or deleted gets Kafka's error.")
def admin_topics_refused(context: ScenarioContext) -> None:
    admin, there, absent = context.admin, context.topic(), context.name("absent")
    fine = context.name("fine")
    results = admin.create_topics({there: 1, fine: 1})
    _refused(results[there], "TOPIC_ALREADY_EXISTS")
    same(_code(results, fine), None, "the error of the other one")
    _refused(_failure(lambda: admin.create_topics({"not a name!": 1})["not a name!"]), "INVALID_TOPIC_EXCEPTION")
    _refused(_failure(lambda: admin.create_topics({absent: 1}, replication=5)[absent]), "INVALID_REPLICATION_FACTOR")
    _refused(_failure(lambda: admin.create_topics({absent: 1}, {"retention.ms": "soon"})[absent]), "INVALID_CONFIG")
    _refused(_failure(lambda: admin.delete_topics([absent])[absent]), "UNKNOWN_TOPIC_OR_PARTITION")


@scenario("A topic's configuration is described, set and reset.", quick=True)
def admin_topic_configs(context: ScenarioContext) -> None:
    admin, topic = context.admin, context.name("admin")
    same(admin.create_topics({topic: 1}, {"retention.ms": "100000"}), {topic: None}, "result of the creation")
    context.truth.wait_until_led(topic)
    before = admin.describe_configs("topic", topic)
    same(before.get("retention.ms"), "100000", "retention.ms")
    admin.alter_configs("topic", topic, set={"max.message.bytes": "54321", "retention.ms": "200000"})
    _wait_for_configs(admin, topic, {"max.message.bytes": "54321", "retention.ms": "200000"})
    admin.alter_configs("topic", topic, set={"max.message.bytes": "54321"}, delete=["retention.ms"])
    _wait_for_configs(admin, topic, {"max.message.bytes": "54321", "retention.ms": "604800000"})


def _wait_for_configs(admin: Admin, topic: str, wanted: Mapping[str, str]) -> None:
    for _ in until(f"{topic} has {dict(wanted)}", 15.0):
        found = admin.describe_configs("topic", topic)
        if all(found.get(name) == value for name, value in wanted.items()):
            return


@scenario("A wrong configuration value is rejected, and changes nothing.")
def admin_wrong_config(context: ScenarioContext) -> None:
    admin, topic = context.admin, context.topic()
    with _refusal("INVALID_CONFIG", "INVALID_REQUEST"):
        admin.alter_configs("topic", topic, set={"retention.ms": "soon"})
    same(admin.describe_configs("topic", topic).get("retention.ms", "604800000"), "604800000", "retention.ms")


@scenario("A broker's configuration is described.")
def admin_broker_configs(context: ScenarioContext) -> None:
    node = context.admin.describe_cluster()["nodes"][0][0]
    configs = context.admin.describe_configs("broker", str(node))
    same(configs.get("offsets.topic.num.partitions"), "4", "offsets.topic.num.partitions")
    expect("log.retention.ms" in configs and "message.max.bytes" in configs, f"{len(configs)} settings, but not all of Kafka's")


@scenario("A topic can get more partitions, never fewer.")
def admin_partitions(context: ScenarioContext) -> None:
    admin, topic = context.admin, context.topic(2)
    admin.create_partitions(topic, 5)
    context.truth.wait_until_led(topic, 5)
    for _ in until("five partitions are described", 15.0):
        if len(admin.describe_topic(topic)) == 5:
            break
    with _refusal("INVALID_PARTITIONS"):
        admin.create_partitions(topic, 3)


@scenario("Records before an offset are deleted, and a consumer starts there.", quick=True)
def admin_delete_records(context: ScenarioContext) -> None:
    admin, topic = context.admin, context.topic(2)
    for index in range(2):
        context.truth.write_values(topic, [b"%d" % number for number in range(COUNT)], partition=index)
    same(admin.delete_records({(topic, 0): 4, (topic, 1): COUNT}), {(topic, 0): 4, (topic, 1): COUNT}, "low watermarks")
    same([context.truth.start_offset(topic, index) for index in range(2)], [4, COUNT], "start offsets")
    same([one.offset for one in context.read(topic, COUNT - 4, partitions=2)], list(range(4, COUNT)), "offsets read")
    with _refusal("OFFSET_OUT_OF_RANGE"):
        admin.delete_records({(topic, 0): 10 * COUNT})


@scenario("Offsets are listed: the earliest, the latest, by time, and that of the largest timestamp.")
def admin_list_offsets(context: ScenarioContext) -> None:
    topic, first = context.topic(2), int(time.time() * 1000) - 100 * STEP_MS
    for place in (0, 1, 5, 2):
        context.truth.write_values(topic, [b"x"], timestamp=first + place * STEP_MS)
    admin = context.admin
    same(admin.list_offsets({(topic, 0): "earliest", (topic, 1): "latest"}), {(topic, 0): 0, (topic, 1): 0}, "earliest and latest")
    same(admin.list_offsets({(topic, 0): "latest"}), {(topic, 0): 4}, "latest")
    same(admin.list_offsets({(topic, 0): first + 1}), {(topic, 0): 1}, "of a time")
    same(admin.list_offsets({(topic, 0): "max_timestamp"}), {(topic, 0): 2}, "of the largest timestamp")


def _busy_group(context: ScenarioContext, topic: str, group: str) -> Members:
    """Create a consumer group with one active member, which has committed offsets for `topic`; return the group's members."""
    consumer: Consumer = context.another().consumer(group=group, reset="earliest", auto_commit=False)
    consumer.subscribe([topic])
    members = Members([consumer])
    members.wait_for_assignment(partitions_of(topic, count=2), [2])
    consumer.commit({(topic, 0): 3, (topic, 1): 4})
    return members


@scenario("A group is listed and described with its member, its state and its offsets; a group with members is not deleted.", quick=True)
def admin_groups(context: ScenarioContext) -> None:
    topic, group, admin = context.topic(2), context.name("group"), context.admin
    for index in range(2):
        context.truth.write_values(topic, [b"x"] * COUNT, partition=index)
    members = _busy_group(context, topic, group)
    expect(group in admin.list_groups(), "it is not in the list")
    described = admin.describe_group(group)
    same(_word(described["state"]), "stable", "its state")
    same(len(described["members"]), 1, "members")
    given = described["members"][0].get("partitions")
    if given is not None:
        same({(name, index) for name, index in given}, partitions_of(topic, count=2), "the member's partitions")
    same(admin.group_offsets(group), {(topic, 0): 3, (topic, 1): 4}, "its offsets")
    _refused(_failure(lambda: admin.delete_groups([group])[group]), "NON_EMPTY_GROUP")
    members.close()


@scenario("An empty group's offsets are altered, and a member starts there; the group is deleted with its offsets.")
def admin_group_offsets(context: ScenarioContext) -> None:
    topic, group, admin = context.topic(2), context.name("group"), context.admin
    for index in range(2):
        context.truth.write_values(topic, [b"x"] * COUNT, partition=index)
    _busy_group(context, topic, group).close()
    admin.alter_group_offsets(group, {(topic, 0): COUNT - 2, (topic, 1): COUNT})
    same(admin.group_offsets(group), {(topic, 0): COUNT - 2, (topic, 1): COUNT}, "its offsets")
    consumer = context.another().consumer(group=group, reset="earliest", auto_commit=False)
    consumer.subscribe([topic])
    members = Members([consumer])
    same(sorted(one.offset for one in members.read(2)), [COUNT - 2, COUNT - 1], "offsets that the next member read")
    members.close()
    for _ in until("the group has no members", 20.0):
        if _word(admin.describe_group(group)["state"]) == "empty":
            break
    same(_code(admin.delete_groups([group]), group), None, "the error of its deletion")
    same(GroupTruth(context.broker.process.port).offsets(group, [(topic, 0)]), {(topic, 0): -1}, "what is committed afterwards")
    _refused(_failure(lambda: admin.delete_groups([group])[group]), "GROUP_ID_NOT_FOUND")


@scenario("The offsets of a group with members cannot be altered.")
def admin_offsets_of_a_busy_group(context: ScenarioContext) -> None:
    topic, group, admin = context.topic(2), context.name("group"), context.admin
    members = _busy_group(context, topic, group)
    with _refusal("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS"):
        admin.alter_group_offsets(group, {(topic, 0): 0})
    same(admin.group_offsets(group)[topic, 0], 3, "its offset")
    members.close()


@scenario("The producers of a partition are described: id, epoch, last sequence, and the start of an open transaction.")
def admin_producers(context: ScenarioContext) -> None:
    topic, name = context.topic(), context.name("txn")
    context.truth.write_values(topic, [b"before"])
    producer = context.producer(transactional_id=name)
    producer.begin()
    producer.send_ok(topic, [Record(b"%d" % number, partition=0) for number in range(5)])
    (open_one,) = context.admin.describe_producers((topic, 0))
    same((open_one["last_sequence"], open_one["txn_start"]), (4, 1), "last sequence and start of the transaction")
    expect(open_one["producer_id"] >= 0 and open_one["epoch"] >= 0, f"the producer is {open_one}")
    producer.commit()
    for _ in until("the transaction is no longer open", 15.0):
        (one,) = context.admin.describe_producers((topic, 0))
        if one["txn_start"] in {None, -1}:
            break
    producer.close()


@scenario("Transactions are listed and described while they are open and when they are complete.")
def admin_transactions(context: ScenarioContext) -> None:
    topic, name, admin = context.topic(2), context.name("txn"), context.admin
    producer = context.producer(transactional_id=name, transaction_timeout_ms=50_000)
    producer.begin()
    producer.send_ok(topic, [Record(b"v", partition=index) for index in range(2)])
    same(_word(admin.list_transactions()[name][1]), "ongoing", "its state in the list")
    described = admin.describe_transaction(name)
    same((_word(described["state"]), described["timeout_ms"]), ("ongoing", 50_000), "its state and timeout")
    same({(place[0], place[1]) for place in described["partitions"]}, partitions_of(topic, count=2), "its partitions")
    producer.commit()
    for _ in until("the transaction is complete", 15.0):
        if _word(admin.describe_transaction(name)["state"]) == "completecommit":
            break
    producer.close()
    with _refusal("TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transaction(context.name("absent"))


@scenario("An operator aborts a transaction in a partition: records after it become readable, and its own do not.")
def admin_abort_transaction(context: ScenarioContext) -> None:
    topic = context.topic()
    producer = context.producer(transactional_id=context.name("txn"))
    producer.begin()
    producer.send_ok(topic, [Record(b"hanging", partition=0)])
    context.truth.write_values(topic, [b"behind"])
    context.admin.abort_transaction((topic, 0), 0)
    same([one.value for one in context.read(topic, 1, isolation="read_committed")], [b"behind"], "values")


@scenario("An operator fences a transactional id: its producer cannot continue, and its transaction is aborted.")
def admin_fence_producers(context: ScenarioContext) -> None:
    topic, name = context.topic(), context.name("txn")
    producer = context.producer(transactional_id=name)
    producer.begin()
    producer.send_ok(topic, [Record(b"fenced", partition=0)])
    context.admin.fence_producers([name])
    context.truth.write_values(topic, [b"behind"])
    same([one.value for one in context.read(topic, 1, isolation="read_committed")], [b"behind"], "values")
    try:
        producer.commit()
    except ClientError as error:
        expect(bool(error.code), "the error has no code")
        return
    raise ScenarioFailed("its producer committed")


@scenario("The cluster is described: its id, its node, its controller.", quick=True)
def admin_cluster(context: ScenarioContext) -> None:
    cluster = context.admin.describe_cluster()
    same([(node[1], node[2]) for node in cluster["nodes"]], [(HOST, context.broker.port_of(cluster["nodes"][0][0]))], "its nodes")
    expect(cluster.get("controller") in {None, cluster["nodes"][0][0]}, f"its controller is {cluster.get('controller')}")
    expect(cluster["cluster_id"] is None or len(cluster["cluster_id"]) > 0, "its id is empty")
