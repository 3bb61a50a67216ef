"""Kafka's settings without effect here that its tools set while a broker runs, that other resources' settings lean on, or that only a
controller obeys.

They are checked, kept and described as Kafka does it (DynamicBrokerConfig, ShareGroupConfig, GroupCoordinatorConfig): a tool that raises
`num.io.threads` goes through, and reads back what it wrote. `ottla.broker.core.ignored_settings` has those that nobody can change or read.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.core.config_keys import INT64_MAX, ConfigKey, ConfigType, Validator, Value, at_least

_T = ConfigType
_POSITIVE, _NOT_NEGATIVE, _BUFFER = at_least(1), at_least(0), at_least(512 * 1024)
_TICKETS = "How a JVM renews its Kerberos ticket."
_LOG_IN = "How a JVM renews a log-in by token."
_THREADS_DOC = "Threads of this kind in Kafka; there are none here."


def _key(name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, f"{doc} Kept, without effect.", validator, dynamic=True)


def _throttle(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, _T.LONG, None, doc, _NOT_NEGATIVE, dynamic=True, internal=True)


THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
CLEANER_THREADS: Final = "log.cleaner.threads"
"""Numbers of threads: a change may halve or double them, no more (DynamicThreadPool, LogCleaner)."""

CORDONED: Final = "cordoned.log.dirs"
CLEANER_BUFFER: Final = "log.cleaner.dedupe.buffer.size"

_THREAD_DEFAULTS = (("background.threads", 10), ("num.io.threads", 8), ("num.network.threads", 3), ("num.recovery.threads.per.data.dir", 2))

_DYNAMIC = (
    *(_key(name, _T.INT, default, _THREADS_DOC, _POSITIVE) for name, default in _THREAD_DEFAULTS),
    _key(CLEANER_THREADS, _T.INT, 1, _THREADS_DOC, _NOT_NEGATIVE),
    _key(CLEANER_BUFFER, _T.LONG, 134_217_728, "Memory of the cleaner for keys."),
    _key("log.cleaner.io.buffer.load.factor", _T.DOUBLE, 0.9, "How full that memory may be."),
    _key("log.cleaner.io.buffer.size", _T.INT, 524_288, "Memory of the cleaner for reading and writing.", _NOT_NEGATIVE),
    _key("log.cleaner.io.max.bytes.per.second", _T.DOUBLE, 1.7976931348623157e308, "How fast the cleaner may read and write."),
    _key("metric.reporters", _T.LIST, ("org.apache.kafka.common.metrics.JmxReporter",), "Classes that report Kafka's metrics."),
    _key("config.providers", _T.LIST, (), "Classes that Kafka asks for values."),
    _key("follower.fetch.last.tiered.offset.enable", _T.BOOLEAN, False, "Where a new follower of a tiered log begins."),
    _key("group.coordinator.cached.buffer.max.bytes", _T.INT, 1_048_588, "Largest write buffer that a coordinator keeps.", _BUFFER),
    _key("share.coordinator.cached.buffer.max.bytes", _T.INT, 1_048_588, "Largest write buffer that a coordinator keeps.", _BUFFER),
    _key("remote.fetch.max.wait.ms", _T.INT, 500, "Tiered storage: how long a Fetch waits.", _POSITIVE),
    _key("remote.list.offsets.request.timeout.ms", _T.LONG, 30_000, "Tiered storage: how long a ListOffsets waits.", _POSITIVE),
    _key("remote.log.index.file.cache.total.size.bytes", _T.LONG, 1_073_741_824, "Tiered storage: cache of indexes.", _POSITIVE),
    _key("remote.log.manager.copy.max.bytes.per.second", _T.LONG, INT64_MAX, "Tiered storage: how fast to copy.", _POSITIVE),
    _key("remote.log.manager.fetch.max.bytes.per.second", _T.LONG, INT64_MAX, "Tiered storage: how fast to read.", _POSITIVE),
    _key("remote.log.manager.copier.thread.pool.size", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    _key("remote.log.manager.expiration.thread.pool.size", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    _key("remote.log.manager.follower.thread.pool.size", _T.INT, 2, _THREADS_DOC, _POSITIVE),
    _key("remote.log.reader.threads", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    ConfigKey(CORDONED, _T.LIST, (), "Directories that get no new partition of a cluster, set while it runs.", dynamic=True),
    _key("sasl.kerberos.kinit.cmd", _T.STRING, "/usr/bin/kinit", _TICKETS),
    _key("sasl.kerberos.min.time.before.relogin", _T.LONG, 60_000, _TICKETS),
    _key("sasl.kerberos.ticket.renew.jitter", _T.DOUBLE, 0.05, _TICKETS),
    _key("sasl.kerberos.ticket.renew.window.factor", _T.DOUBLE, 0.8, _TICKETS),
    _key("sasl.login.refresh.buffer.seconds", _T.SHORT, 300, _LOG_IN),
    _key("sasl.login.refresh.min.period.seconds", _T.SHORT, 60, _LOG_IN),
    _key("sasl.login.refresh.window.factor", _T.DOUBLE, 0.8, _LOG_IN),
    _key("sasl.login.refresh.window.jitter", _T.DOUBLE, 0.05, _LOG_IN),
    _throttle("leader.replication.throttled.rate", "Bytes a second that leaders send to throttled followers, in a cluster."),
    _throttle("follower.replication.throttled.rate", "Bytes a second that throttled followers read, in a cluster."),
    _throttle("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes a second that move between data directories. Kept, without effect."),
)


def _controllers(
    name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, *, internal: bool = False
) -> ConfigKey:
    return ConfigKey(name, kind, default, f"{doc} For controllers only.", validator, internal=internal)


_OF_CONTROLLERS = (
    _controllers("auto.leader.rebalance.enable", _T.BOOLEAN, True, "Whether preferred leaders are elected again."),
    _controllers("broker.session.timeout.ms", _T.INT, 9_000, "A broker silent for so long is fenced."),
    _controllers("controller.quorum.append.linger.ms", _T.INT, 25, "How long writes are collected.", _NOT_NEGATIVE),
    _controllers("controller.quorum.auto.join.enable", _T.BOOLEAN, False, "Whether a controller joins its quorum by itself."),
    _controllers("controller.quorum.election.backoff.max.ms", _T.INT, 1_000, "Longest pause before an election.", _NOT_NEGATIVE),
    _controllers("controller.quorum.election.timeout.ms", _T.INT, 1_000, "How long an election may take.", _NOT_NEGATIVE),
    _controllers("leader.imbalance.check.interval.seconds", _T.LONG, 300, "How often preferred leaders are looked at.", _POSITIVE),
    _controllers("metadata.max.idle.interval.ms", _T.INT, 500, "How often an idle controller writes.", _NOT_NEGATIVE),
    _controllers(
        "unclean.leader.election.interval.ms", _T.LONG, 300_000, "How often unclean elections are looked for.", _POSITIVE, internal=True
    ),
)

_GROUP_DEFAULTS: Final[dict[str, tuple[int, int, str]]] = {
    "group.share.session.timeout.ms": (45_000, 1, "A member of a share group silent for so long is out."),
    "group.share.min.session.timeout.ms": (45_000, 1, "Lowest value of it."),
    "group.share.max.session.timeout.ms": (60_000, 1, "Highest value of it."),
    "group.share.heartbeat.interval.ms": (5_000, 1, "How often members of share groups are to be heard of."),
    "group.share.min.heartbeat.interval.ms": (5_000, 1, "Lowest value of it."),
    "group.share.max.heartbeat.interval.ms": (15_000, 1, "Highest value of it."),
    "group.share.record.lock.duration.ms": (30_000, 1_000, "How long a share group's member has a record for itself."),
    "group.share.min.record.lock.duration.ms": (15_000, 1_000, "Lowest value of it."),
    "group.share.max.record.lock.duration.ms": (60_000, 1_000, "Highest value of it."),
    "group.share.delivery.count.limit": (5, 2, "How often a share group is given a record."),
    "group.share.min.delivery.count.limit": (2, 2, "Lowest value of it."),
    "group.share.max.delivery.count.limit": (10, 2, "Highest value of it."),
    "group.share.partition.max.record.locks": (2_000, 100, "Records of a partition that a share group has in hand."),
    "group.share.min.partition.max.record.locks": (100, 100, "Lowest value of it."),
    "group.share.max.partition.max.record.locks": (4_000, 100, "Highest value of it."),
    "group.share.assignment.interval.ms": (1_000, 0, "Time between two assignments of a share group."),
    "group.share.min.assignment.interval.ms": (0, 0, "Lowest value of it for a group."),
    "group.share.max.assignment.interval.ms": (15_000, 0, "Highest value of it for a group."),
    "group.streams.session.timeout.ms": (45_000, 1, "A member of a streams group silent for so long is out."),
    "group.streams.min.session.timeout.ms": (45_000, 1, "Lowest value of it."),
    "group.streams.max.session.timeout.ms": (60_000, 1, "Highest value of it."),
    "group.streams.heartbeat.interval.ms": (5_000, 1, "How often members of streams groups are to be heard of."),
    "group.streams.min.heartbeat.interval.ms": (5_000, 1, "Lowest value of it."),
    "group.streams.max.heartbeat.interval.ms": (15_000, 1, "Highest value of it."),
    "group.streams.num.standby.replicas": (0, 0, "Standby replicas of each task."),
    "group.streams.max.standby.replicas": (2, 0, "Highest value of it."),
    "group.streams.initial.rebalance.delay.ms": (3_000, 0, "How long a new streams group waits for more members."),
    "group.streams.assignment.interval.ms": (1_000, 0, "Time between two assignments of a streams group."),
    "group.streams.min.assignment.interval.ms": (0, 0, "Lowest value of it for a group."),
    "group.streams.max.assignment.interval.ms": (15_000, 0, "Highest value of it for a group."),
}
"""Default, lowest value, and what it is."""

_DYNAMIC_OF_GROUPS: Final = frozenset(f"group.{kind}.assignment.interval.ms" for kind in ("share", "streams"))

_OF_GROUPS = (
    ConfigKey(name, _T.INT, default, f"{doc} Kept, without effect.", at_least(low), dynamic=name in _DYNAMIC_OF_GROUPS)
    for name, (default, low, doc) in _GROUP_DEFAULTS.items()
)

OF_CONTROLLERS: Final = frozenset(key.name for key in _OF_CONTROLLERS)
"""What a controller obeys, and no other node."""

STORED_SETTINGS: Final[dict[str, ConfigKey]] = {key.name: key for key in (*_DYNAMIC, *_OF_CONTROLLERS, *_OF_GROUPS)}
