"""Log levels under the names of Kafka's loggers, as BROKER_LOGGER resources (Kafka's `RuntimeLoggerManager` and `LoggingController`).

Invariants:
- A logger has its own level, or that of its nearest ancestor (`kafka.server` for `kafka.server.ReplicaManager`), or the root's. Levels
  do not survive a restart, as in Kafka.
- A Kafka logger stands for the module of this broker with the same task. One without a counterpart has a level, but logs nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.broker.configs.config_op import ConfigOp
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

ROOT: Final = "root"
LEVELS: Final[Mapping[str, int]] = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}

_WITHOUT_COUNTERPART: Final = (
    *(f"kafka.cluster.{name}" for name in ("Partition", "Replica")),
    *(f"kafka.coordinator.transaction.{name}" for name in ("TransactionCoordinator", "TransactionStateManager")),
    *("kafka.log.LogCleaner", "kafka.network.DataPlaneAcceptor", "kafka.network.Processor", "kafka.network.RequestChannel"),
    *(
        f"kafka.server.{name}"
        for name in (
            "BrokerLifecycleManager",
            "BrokerServer",
            "ConfigAdminManager",
            "ControllerApis",
            "ControllerServer",
            "DynamicBrokerConfig",
            "KafkaConfig",
            "KafkaRaftServer",
            "KafkaRequestHandler",
            "KafkaRequestHandlerPool",
            "ReplicaAlterLogDirsManager",
            "ReplicaFetcherManager",
            "ReplicaFetcherThread",
            "SharedServer",
        )
    ),
    *("org.apache.kafka.controller.QuorumController", "org.apache.kafka.raft.KafkaRaftClient"),
)
"""Loggers of Kafka classes whose levels tools and tests set. Each has a level, but this broker has no logger for the same task, so nothing
is logged under the name."""

COUNTERPARTS: Final[Mapping[str, str | None]] = {
    **dict.fromkeys(_WITHOUT_COUNTERPART),
    "kafka": "ottla.broker",
    "kafka.authorizer.logger": None,
    "kafka.controller": "ottla.broker.runtime.metadata.publisher",
    "kafka.coordinator.transaction": "ottla.broker.runtime.coordination.txn_service",
    "kafka.coordinator.transaction.TransactionMarkerChannelManager": "ottla.broker.runtime.coordination.txn_completion",
    "kafka.log.LogManager": "ottla.broker.storage.log_dir",
    "kafka.network": "ottla.broker.net",
    "kafka.network.RequestChannel$": None,
    "kafka.network.SocketServer": "ottla.broker.peers",
    "kafka.request.logger": None,
    "kafka.server.KafkaApis": "ottla.broker.api",
    "kafka.server.ReplicaManager": "ottla.broker.runtime.replicas.partition",
    "org.apache.kafka": None,
    "org.apache.kafka.coordinator.group": "ottla.broker.runtime.coordination.group_service",
    "org.apache.kafka.storage.internals.log": "ottla.broker.storage",
    "org.apache.kafka.storage.internals.log.LogCleaner": "ottla.broker.storage.log_cleaner_manager",
    "state.change.logger": "ottla.broker.runtime.metadata.topic_recovery",
}
"""By the name of a Kafka logger: the name of the Python logger of this broker whose level it sets; None if nothing is logged under the
Kafka logger."""

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,10}")
_REFUSED: Final = {_APPEND: "APPEND", _SUBTRACT: "SUBTRACT"}


def check_levels(name: str, ops: Iterable[ConfigOp], node_id: int) -> None:
    """Check changes of log levels in the BROKER_LOGGER resource `name`. Raises `Rejected` for another node's resource, an unknown logger or
    level, or an operation that loggers do not support."""
    _check_node(name, node_id)
    for op in ops:
        if op.op in _REFUSED:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"{_REFUSED[op.op]} operation is not allowed for the BROKER_LOGGER resource")
        if op.op not in {_SET, _DELETE}:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown operation type {op.op} is not allowed for the BROKER_LOGGER resource")
        if op.name != ROOT and op.name not in COUNTERPARTS:
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Logger {op.name} does not exist!")
        if op.op == _DELETE and op.name == ROOT:
            raise Rejected(ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
        if op.op == _SET and op.value not in LEVELS:
            valid = ", ".join(sorted(LEVELS))
            problem = f"as it is not a supported log level. Valid log levels are {valid}"
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Cannot set the log level of {op.name} to {op.value} {problem}")


def _check_node(name: str, node_id: int) -> None:
    if _INTEGER.fullmatch(name) is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")


class BrokerLoggers:
    """The log levels of this process: the levels in force, and the levels that clients have set."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {}
        self._before: dict[str, int] = {}

    def levels(self) -> dict[str, str]:
        """Return the level of every logger, by the name of the Kafka logger."""
        root = self._set.get(ROOT) or _name_of(logging.getLogger().getEffectiveLevel())
        return {ROOT: root} | {name: self._level(name, root) for name in COUNTERPARTS}

    def change(self, ops: Sequence[ConfigOp]) -> None:
        """Change loggers' levels by operations that `check_levels` has accepted."""
        for op in ops:
            if op.op == _DELETE or op.value is None:
                self._set.pop(op.name, None)
            else:
                self._set[op.name] = op.value
        for name, own in {ROOT: "", **COUNTERPARTS}.items():
            if own is None:
                continue
            logger = logging.getLogger(own)
            before = self._before.setdefault(own, logger.level)
            logger.setLevel(LEVELS[self._set[name]] if name in self._set else before)

    def reset(self) -> None:
        """Restore the levels that the loggers had before clients changed them, because the process may outlive the broker."""
        for own, level in self._before.items():
            logging.getLogger(own).setLevel(level)
        self._set.clear()
        self._before.clear()

    def _level(self, name: str, root: str) -> str:
        while name:
            if name in self._set:
                return self._set[name]
            name = name.rpartition(".")[0]
        return root


def _name_of(level: int) -> str:
    """Convert Python's log level `level` to a level name of Kafka: the least severe one that is at least as severe, or FATAL if there is
    none."""
    return next((name for name, value in LEVELS.items() if value >= level), "FATAL")
