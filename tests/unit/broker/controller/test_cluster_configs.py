"""Config changes in a cluster, and their effect on eligible leader replicas."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import ELR_VERSION, ResourceType
from ottla.broker.cluster.metadata_records import ClearElrRecord, ConfigRecord, MetadataRecord, RegisterControllerRecord
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.controller.alter_configs import AlterResource
from ottla.broker.controller.cluster_configs import CORDONED, alter_cluster_configs
from ottla.broker.controller.state import MIN_ISR
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from tests.support.catalogs import code_of
from tests.support.controllers import CONTROLLER, LiveController, replicas

TOPIC, BROKER, LOGGER, GROUP = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.GROUP


def resource(kind: int, name: str, replace: bool = False, **values: str | None) -> AlterResource:
    """Return a change of a resource's configs, where None deletes one. In the names of configs, `_` stands for `.`."""
    ops = [ConfigOp(key.replace("_", "."), OpType.DELETE if value is None else OpType.SET, value) for key, value in values.items()]
    return AlterResource(kind, name, ops, replace)


def decide(
    controller: LiveController, *resources: AlterResource, forwarded: bool = True
) -> tuple[list[MetadataRecord], list[Rejected | None]]:
    effects = alter_cluster_configs(controller.state, resources, forwarded=forwarded)
    return list(effects.records), effects.response


def problem(controller: LiveController, changed: AlterResource, *, forwarded: bool = True) -> tuple[ErrorCode, str]:
    records, (error,) = decide(controller, changed, forwarded=forwarded)
    assert error is not None
    assert records == []
    return error.code, error.message


@pytest.fixture
def controller() -> LiveController:
    controller = LiveController()
    controller.add_broker(1)
    controller.add_topic("a", replicas(1))
    return controller


def test_each_resource_is_decided_separately(controller: LiveController) -> None:
    records, errors = decide(
        controller, resource(TOPIC, "a", retention_ms="5"), resource(TOPIC, "b", retention_ms="5"), resource(GROUP, "g", a_b="1")
    )
    assert records == [ConfigRecord(TOPIC, "a", "retention.ms", "5")]
    assert [code_of(error) for error in errors] == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_CONFIG]


def test_a_duplicate_resource_is_refused_twice(controller: LiveController) -> None:
    twice = resource(TOPIC, "a", retention_ms="5")
    records, errors = decide(controller, twice, twice)
    assert records == []
    assert [code_of(error) for error in errors] == [ErrorCode.INVALID_REQUEST] * 2


def test_null_deletes_a_config_at_the_controller_endpoint(controller: LiveController) -> None:
    controller.write(ConfigRecord(TOPIC, "a", "retention.ms", "5"))
    null = AlterResource(TOPIC, "a", [ConfigOp("retention.ms", OpType.SET, None)])
    assert decide(controller, null, forwarded=False) == ([ConfigRecord(TOPIC, "a", "retention.ms", None)], [None])


@pytest.mark.parametrize("op", [OpType.APPEND, OpType.SUBTRACT])
def test_null_cannot_be_appended_to_a_list(controller: LiveController, op: OpType) -> None:
    changed = AlterResource(TOPIC, "a", [ConfigOp("cleanup.policy", op, None)])
    assert problem(controller, changed, forwarded=False)[0] is ErrorCode.INVALID_REQUEST


def test_an_unknown_resource_type_is_unsupported(controller: LiveController) -> None:
    assert problem(controller, resource(99, "a", x="1")) == (ErrorCode.UNSUPPORTED_VERSION, "Unknown resource type 99.")


@pytest.mark.parametrize("kind", [TOPIC, GROUP])
def test_append_to_a_non_list_is_checked_before_the_resource_name(controller: LiveController, kind: int) -> None:
    changed = AlterResource(kind, "", [ConfigOp("retention.ms", OpType.SUBTRACT, "5")])
    assert problem(controller, changed)[0] is ErrorCode.INVALID_CONFIG


def test_unchanged_configs_are_written_only_for_brokers(controller: LiveController) -> None:
    for _ in range(2):
        changed = resource(TOPIC, "a", retention_ms="5"), resource(BROKER, "1", log_cleaner_threads="2", max_connections=None)
        records, _ = decide(controller, *changed)
        controller.write(*records)
    assert records == [ConfigRecord(BROKER, "1", "log.cleaner.threads", "2"), ConfigRecord(BROKER, "1", "max.connections", None)]


def test_replaced_configs_come_before_deleted_ones(controller: LiveController) -> None:
    controller.write(ConfigRecord(TOPIC, "a", "cleanup.policy", "compact"), ConfigRecord(TOPIC, "a", "retention.ms", "5"))
    records, _ = decide(controller, resource(TOPIC, "a", replace=True, segment_ms="9", retention_ms="5"))
    assert records == [ConfigRecord(TOPIC, "a", "segment.ms", "9"), ConfigRecord(TOPIC, "a", "cleanup.policy", None)]


@pytest.mark.parametrize("name", ["", "1", str(CONTROLLER), "77"])
def test_broker_configs_are_for_all_brokers_or_one_registered_node(controller: LiveController, name: str) -> None:
    controller.write(RegisterControllerRecord(77))
    records, _ = decide(controller, resource(BROKER, name, log_cleaner_threads="2"))
    assert records == [ConfigRecord(BROKER, name, "log.cleaner.threads", "2")]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("2", ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("one", ErrorCode.INVALID_REQUEST),
        ("-1", ErrorCode.INVALID_REQUEST),
        ("9" * 5_000, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_unknown_nodes_configs_are_refused(controller: LiveController, name: str, code: ErrorCode) -> None:
    assert problem(controller, resource(BROKER, name, log_cleaner_threads="2"))[0] is code


def test_logger_configs_are_refused(controller: LiveController) -> None:
    assert problem(controller, resource(LOGGER, "1", a="INFO"))[0] is ErrorCode.INVALID_REQUEST


def test_append_works_for_broker_configs(controller: LiveController) -> None:
    controller.write(ConfigRecord(BROKER, "1", CORDONED, "/a"))
    changed = AlterResource(BROKER, "1", [ConfigOp("log.cleanup.policy", OpType.APPEND, "compact")])
    assert decide(controller, changed)[0] == [ConfigRecord(BROKER, "1", "log.cleanup.policy", "delete,compact")]
    unknown = AlterResource(BROKER, "1", [ConfigOp("a.b", OpType.APPEND, "x")])
    assert "its type is not LIST" in problem(controller, unknown)[1]


def test_a_config_value_has_a_maximum_length(controller: LiveController) -> None:
    decide(controller, resource(BROKER, "1", a_b="x" * 32_767))
    code, message = problem(controller, resource(BROKER, "1", a_b="x" * 32_768))
    assert code is ErrorCode.INVALID_CONFIG
    assert "exceeds the maximum value size" in message


def test_changing_min_insync_replicas_clears_eligible_leader_replicas() -> None:
    controller = LiveController(features={ELR_VERSION: 1})
    controller.add_topic("a", replicas(1, 2, isr=(1,))._replace(elr=(2,)))
    records, _ = decide(controller, resource(TOPIC, "a", min_insync_replicas="2"), resource(BROKER, "", min_insync_replicas="3"))
    assert records[2:] == [ClearElrRecord("a"), ClearElrRecord("")]
    controller.write(*records)
    assert controller.partition("a").elr == ()


def test_min_insync_replicas_clears_nothing_without_eligible_leader_replicas(controller: LiveController) -> None:
    records, _ = decide(controller, resource(TOPIC, "a", min_insync_replicas="2"))
    assert records == [ConfigRecord(TOPIC, "a", MIN_ISR, "2")]


def test_min_insync_replicas_is_cluster_wide_with_eligible_leader_replicas() -> None:
    controller = LiveController(features={ELR_VERSION: 1})
    controller.add_broker(1)
    controller.write(ConfigRecord(BROKER, "", MIN_ISR, "2"), ConfigRecord(BROKER, "1", MIN_ISR, "2"))
    for value in "1", None:
        assert "Broker-level" in problem(controller, resource(BROKER, "1", min_insync_replicas=value))[1]
    assert "cannot be removed" in problem(controller, resource(BROKER, "", min_insync_replicas=None))[1]
    assert "cannot be removed" in problem(controller, resource(BROKER, "", replace=True, log_cleaner_threads="2"))[1]


def test_cordoned_directories_are_set_only_at_their_broker(controller: LiveController) -> None:
    changed = resource(BROKER, "1", cordoned_log_dirs="/a,/b")
    assert "must be a subset" in problem(controller, changed, forwarded=False)[1]
    controller.write(*decide(controller, changed, forwarded=True)[0])
    less = resource(BROKER, "1", cordoned_log_dirs=" /b ")
    assert decide(controller, less, forwarded=False)[0] == [ConfigRecord(BROKER, "1", CORDONED, " /b ")]
    assert decide(controller, resource(BROKER, "1", cordoned_log_dirs=None), forwarded=False)[0] == [
        ConfigRecord(BROKER, "1", CORDONED, None)
    ]


def test_cordoned_directories_need_their_metadata_version() -> None:
    controller = LiveController(level=29)
    controller.add_broker(1)
    assert "requires metadata.version" in problem(controller, resource(BROKER, "1", cordoned_log_dirs="/a"))[1]


@pytest.mark.parametrize("text", ["many", "0", "", "2147483648"])
def test_min_insync_replicas_must_be_a_number_at_the_controller_endpoint(controller: LiveController, text: str) -> None:
    for broker in ("", "1"):
        code, message = problem(controller, resource(BROKER, broker, min_insync_replicas=text), forwarded=False)
        assert code == ErrorCode.INVALID_CONFIG
        assert MIN_ISR in message


def test_an_invalid_min_insync_replicas_in_the_log_is_ignored(controller: LiveController) -> None:
    """An Apache Kafka controller may have written such a value."""
    controller.write(ConfigRecord(BROKER, "", MIN_ISR, "many"))
    topic = controller.state.catalog.topic("a")
    assert topic is not None
    assert controller.state.min_isr(topic) == 1
