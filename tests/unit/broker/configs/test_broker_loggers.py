from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator

import pytest

from ottla.broker.configs.broker_loggers import COUNTERPARTS, BrokerLoggers, check_levels
from ottla.broker.configs.config_op import ConfigOp, OpType
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

SET, DELETE, APPEND, SUBTRACT = OpType
REPLICAS, OWN = "kafka.server.ReplicaManager", "ottla.broker.runtime.replicas.partition"


@pytest.fixture
def loggers() -> Iterator[BrokerLoggers]:
    loggers = BrokerLoggers()
    yield loggers
    loggers.reset()


def test_setting_a_kafka_loggers_level_changes_the_matching_module(loggers: BrokerLoggers) -> None:
    loggers.change([ConfigOp(REPLICAS, SET, "DEBUG")])
    assert loggers.levels()[REPLICAS] == "DEBUG"
    assert logging.getLogger(OWN).level == logging.DEBUG
    loggers.change([ConfigOp(REPLICAS, DELETE, None)])
    assert logging.getLogger(OWN).level == logging.NOTSET
    assert loggers.levels()[REPLICAS] == loggers.levels()["root"]


def test_a_logger_without_a_level_inherits_its_parents(loggers: BrokerLoggers) -> None:
    loggers.change([ConfigOp("root", SET, "ERROR"), ConfigOp("kafka", SET, "TRACE")])
    levels = loggers.levels()
    assert (levels[REPLICAS], levels["org.apache.kafka"], levels["kafka.request.logger"]) == ("TRACE", "ERROR", "TRACE")


@pytest.mark.parametrize("own", sorted({own for own in COUNTERPARTS.values() if own is not None} - {PEERS}))
def test_a_kafka_logger_maps_to_a_module_that_logs_or_a_package(own: str) -> None:
    module = importlib.import_module(own)
    assert hasattr(module, "__path__") or isinstance(getattr(module, "logger", None), logging.Logger)


def test_a_reset_restores_every_loggers_level(loggers: BrokerLoggers) -> None:
    before = logging.getLogger().level
    loggers.change([ConfigOp("root", SET, "FATAL"), ConfigOp(REPLICAS, SET, "TRACE")])
    loggers.reset()
    assert (logging.getLogger().level, logging.getLogger(OWN).level) == (before, logging.NOTSET)


@pytest.mark.parametrize(
    ("op", "code", "message"),
    [
        (ConfigOp("no.such", SET, "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (ConfigOp("no.such", DELETE, None), ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!"),
        (
            ConfigOp("root", SET, "debug"),
            ErrorCode.INVALID_CONFIG,
            "Cannot set the log level of root to debug as it is not a supported log level. "
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (ConfigOp("root", DELETE, None), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (ConfigOp("root", APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (
            ConfigOp("root", SUBTRACT, "DEBUG"),
            ErrorCode.INVALID_REQUEST,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
    ],
)
def test_an_invalid_logger_change_is_refused_with_kafkas_message(op: ConfigOp, code: ErrorCode, message: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_levels("1", [op], 1)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_kafkas_loggers_inherit_from_the_nearest_parent() -> None:
    loggers = BrokerLoggers()
    named = ("kafka.server.ControllerServer", "kafka.log.LogCleaner", "kafka.server.KafkaRequestHandler", "kafka.cluster.Replica")
    try:
        check_levels("1", [ConfigOp(name, SET, "ERROR") for name in named], 1)
        loggers.change([ConfigOp("kafka", SET, "TRACE"), ConfigOp(named[0], SET, "ERROR")])
        assert [loggers.levels()[name] for name in named] == ["ERROR", "TRACE", "TRACE", "TRACE"]
        loggers.change([ConfigOp(named[0], DELETE, None)])
        assert loggers.levels()[named[0]] == "TRACE"
    finally:
        loggers.reset()


@pytest.mark.parametrize("op", [APPEND, SUBTRACT])
def test_an_operation_for_lists_is_refused_after_a_valid_change_of_another_logger(op: OpType) -> None:
    ops = [ConfigOp("kafka.server.KafkaRequestHandler", SET, "INFO"), ConfigOp("kafka.network.SocketServer", op, "ERROR")]
    with pytest.raises(Rejected) as refused:
        check_levels("1", ops, 1)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2", "Unexpected node id. Expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
        ("", "Node id must be an integer, but it is: "),
    ],
)
def test_another_nodes_loggers_are_refused(name: str, message: str) -> None:
    with pytest.raises(Rejected) as refused:
        check_levels(name, [ConfigOp("root", SET, "INFO")], 1)
    assert (refused.value.code, refused.value.message) == (ErrorCode.INVALID_REQUEST, message)
