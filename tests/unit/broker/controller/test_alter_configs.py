from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ResourceType
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource, wanted_overrides
from ottla.broker.controller.create_topics import NewTopic
from ottla.broker.core.topic_keys import TOPIC_KEYS
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import LiveCatalog, code_of

SET, DELETE, APPEND, SUBTRACT = OpType
TOPIC, BROKER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.GROUP
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


@pytest.fixture
def live() -> LiveCatalog:
    live = LiveCatalog()
    live.create(NewTopic("t", configs=[("retention.ms", "5"), ("cleanup.policy", "compact")]), NewTopic("u"))
    return live


def alter(live: LiveCatalog, *resources: AlterResource) -> list[ErrorCode]:
    return [code_of(error) for error in live.alter(*resources)]


def change(live: LiveCatalog, *ops: tuple[str, int, str | None], name: str = "t", kind: int = TOPIC) -> ErrorCode:
    (code,) = alter(live, AlterResource(kind, name, [ConfigOp(*op) for op in ops]))
    return code


def test_an_incremental_change_keeps_other_configs(live: LiveCatalog) -> None:
    assert change(live, ("flush.ms", SET, "9"), ("retention.ms", DELETE, None)) is ErrorCode.NONE
    assert live.catalog.configs(TOPIC, "t") == {"cleanup.policy": "compact", "flush.ms": "9"}


def test_a_replacing_change_deletes_other_configs(live: LiveCatalog) -> None:
    assert alter(live, AlterResource(TOPIC, "t", [ConfigOp("flush.ms", SET, "9")], replace=True)) == [ErrorCode.NONE]
    assert live.catalog.configs(TOPIC, "t") == {"flush.ms": "9"}


def test_a_list_config_supports_append_and_subtract_without_duplicates(live: LiveCatalog) -> None:
    assert change(live, ("cleanup.policy", APPEND, "delete,compact")) is ErrorCode.NONE
    assert live.catalog.configs(TOPIC, "t")["cleanup.policy"] == "compact,delete"
    assert change(live, ("cleanup.policy", SUBTRACT, "compact")) is ErrorCode.NONE
    assert live.catalog.configs(TOPIC, "t")["cleanup.policy"] == "delete"


class Item(str):
    """A list item that counts the comparisons of all its kind."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Item.compared += 1
        return str(self) == other


class Listed(str):
    """A list setting's text whose items are `Item`s."""

    def split(self, *_: object, **__: object) -> list[str]:
        return [Item(each) for each in str(self).split(",")]


@pytest.mark.parametrize(("op", "wanted"), [(APPEND, "a,b,a,a,b,0"), (SUBTRACT, "a,b")])
def test_a_list_is_edited_without_comparing_each_pair_of_items(op: int, wanted: str) -> None:
    name = "leader.replication.throttled.replicas"

    def edited(before: str, value: str) -> str:
        return wanted_overrides(AlterResource(TOPIC, "t", [ConfigOp(name, op, value)]), {name: before}, TOPIC_KEYS, {})[name]

    assert edited("a,b,a,a,b", "a,0,a,0,b") == wanted
    many = [f"0:{number}" for number in range(1_000)]
    Item.compared = 0
    edited(Listed(",".join(many)), ",".join(reversed(many)))
    assert Item.compared <= 10 * len(many)


def test_appending_to_an_unset_list_starts_from_the_default(live: LiveCatalog) -> None:
    assert change(live, ("cleanup.policy", APPEND, "compact"), name="u") is ErrorCode.NONE
    assert live.catalog.configs(TOPIC, "u")["cleanup.policy"] == "delete,compact"


@pytest.mark.parametrize(("edit", "code"), [("", ErrorCode.INVALID_CONFIG), (",", ErrorCode.NONE), ("delete,,", ErrorCode.NONE)])
def test_an_empty_item_is_appended_as_in_java(live: LiveCatalog, edit: str, code: ErrorCode) -> None:
    assert change(live, ("cleanup.policy", APPEND, edit)) is code


@pytest.mark.parametrize("op", [APPEND, SUBTRACT])
def test_append_needs_a_list_config(live: LiveCatalog, op: int) -> None:
    assert change(live, ("retention.ms", op, "1")) is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("ops", "code"),
    [
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ([("no.such", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", 4, "1")], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_change_is_refused_and_changes_nothing(live: LiveCatalog, ops: list[tuple[str, int, str | None]], code: ErrorCode) -> None:
    before = dict(live.catalog.configs(TOPIC, "t"))
    assert change(live, ("flush.ms", SET, "1"), *ops) is code
    assert live.catalog.configs(TOPIC, "t") == before


def test_a_duplicate_resource_is_refused_and_others_are_applied(live: LiveCatalog) -> None:
    ops = [ConfigOp("flush.ms", SET, "1")]
    resources = [AlterResource(TOPIC, "t", ops), AlterResource(TOPIC, "u", ops), AlterResource(TOPIC, "t", [])]
    assert alter(live, *resources) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("name", "code"),
    [("", ErrorCode.INVALID_REQUEST), ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
def test_an_unknown_topics_configs_cannot_be_changed(live: LiveCatalog, name: str, code: ErrorCode) -> None:
    assert change(live, ("flush.ms", SET, "1"), name=name) is code


@pytest.mark.parametrize("name", ["", "1"])
def test_a_dynamic_config_is_stored_for_all_brokers_or_this_one(live: LiveCatalog, name: str) -> None:
    assert change(live, ("message.max.bytes", SET, "77"), name=name, kind=BROKER) is ErrorCode.NONE
    assert live.catalog.configs(BROKER, name) == {"message.max.bytes": "77"}


@pytest.mark.parametrize(
    ("name", "key", "value", "code"),
    [
        ("2", "message.max.bytes", "1", ErrorCode.INVALID_REQUEST),
        ("one", "message.max.bytes", "1", ErrorCode.INVALID_REQUEST),
        ("1", "num.partitions", "1", ErrorCode.INVALID_REQUEST),
        ("1", "message.max.bytes", "many", ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_static_broker_config_is_refused(live: LiveCatalog, name: str, key: str, value: str, code: ErrorCode) -> None:
    assert change(live, (key, SET, value), name=name, kind=BROKER) is code


def test_a_group_config_is_stored_and_deleted(live: LiveCatalog) -> None:
    assert change(live, (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000"), name="g", kind=GROUP) is ErrorCode.NONE
    assert live.catalog.configs(GROUP, "g") == {SESSION: "50000", HEARTBEAT: "6000"}
    assert change(live, (SESSION, DELETE, None), name="g", kind=GROUP) is ErrorCode.NONE
    assert live.catalog.configs(GROUP, "g") == {HEARTBEAT: "6000"}


@pytest.mark.parametrize(
    ("name", "key", "value", "code"),
    [
        ("", "consumer.session.timeout.ms", "50000", ErrorCode.INVALID_REQUEST),
        ("g", "no.such", "1", ErrorCode.INVALID_CONFIG),
        ("g", "consumer.session.timeout.ms", "soon", ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_group_config_is_refused(live: LiveCatalog, name: str, key: str, value: str, code: ErrorCode) -> None:
    assert change(live, (key, SET, value), name=name, kind=GROUP) is code
    assert live.catalog.configs(GROUP, name) == {}


@pytest.mark.parametrize("kind", [0, 1, 3, 127])
def test_other_resource_types_cannot_be_altered(live: LiveCatalog, kind: int) -> None:
    assert change(live, ("x", SET, "1"), kind=kind) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("replace", [True, False])
def test_logger_levels_are_not_metadata(live: LiveCatalog, replace: bool) -> None:
    resource = AlterResource(ResourceType.BROKER_LOGGER, "1", [ConfigOp("root", SET, "DEBUG")], replace=replace)
    assert alter(live, resource) == [ErrorCode.INVALID_REQUEST]


def test_a_client_metrics_subscription_is_stored(live: LiveCatalog) -> None:
    metrics = ResourceType.CLIENT_METRICS
    assert change(live, ("interval.ms", SET, "1000"), ("metrics", SET, "*"), name="m", kind=metrics) is ErrorCode.NONE
    assert live.catalog.configs(metrics, "m") == {"interval.ms": "1000", "metrics": "*"}
    assert change(live, ("metrics", APPEND, "x"), name="m", kind=metrics) is ErrorCode.INVALID_CONFIG
