"""Kafka settings that a broker stores and returns by DescribeConfigs, but most of which have no effect on it.

There are three groups: settings that Kafka's tools change while a broker runs, settings of streams groups, and settings that only a
controller applies. They are validated, stored and described as in Kafka (DynamicBrokerConfig, GroupCoordinatorConfig), so that a tool that
raises `num.io.threads` succeeds and reads back the value that it wrote. A setting with an effect (`ConfigKey.has_effect`) is read elsewhere
by its name, such as the replication throttles. Settings that cannot be changed or read while a broker runs are in
`ottla.broker.core.ignored_settings`.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.core.config_keys import INT64_MAX, ConfigKey, ConfigType, Validator, Value, at_least, each_of

_T = ConfigType
_POSITIVE, _NOT_NEGATIVE, _BUFFER = at_least(1), at_least(0), at_least(512 * 1024)
_TICKETS = "Renewal of Kerberos tickets in a JVM."
_LOG_IN = "Renewal of OAUTHBEARER logins in a JVM."
_THREADS_DOC = "Size of a thread pool of Kafka's, which does not exist here."


def _key(name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None) -> ConfigKey:
    return ConfigKey(name, kind, default, f"{doc} Stored, without effect.", validator, dynamic=True, has_effect=False)


def _throttle(name: str, doc: str, *, has_effect: bool = True) -> ConfigKey:
    return ConfigKey(name, _T.LONG, None, doc, _NOT_NEGATIVE, dynamic=True, internal=True, cluster_only=True, has_effect=has_effect)


THREADS: Final = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
)
"""Settings that are numbers of threads. One change may at most halve or double the value (KAFKA DynamicThreadPool)."""
CLEANER_THREADS: Final = "log.cleaner.threads"
"""The setting for the number of log cleaner threads. One change may at most halve or double the value (KAFKA LogCleaner)."""

CORDONED: Final = "cordoned.log.dirs"
CLEANER_BUFFER: Final = "log.cleaner.dedupe.buffer.size"

_THREAD_DEFAULTS = (("background.threads", 10), ("num.io.threads", 8), ("num.network.threads", 3), ("num.recovery.threads.per.data.dir", 2))

_DYNAMIC = (
    *(_key(name, _T.INT, default, _THREADS_DOC, _POSITIVE) for name, default in _THREAD_DEFAULTS),
    _key(CLEANER_THREADS, _T.INT, 1, _THREADS_DOC, _NOT_NEGATIVE),
    _key(CLEANER_BUFFER, _T.LONG, 134_217_728, "Size of the log cleaner's key buffer in bytes."),
    _key("log.cleaner.io.buffer.load.factor", _T.DOUBLE, 0.9, "Share of the log cleaner's key buffer that may be filled."),
    _key("log.cleaner.io.buffer.size", _T.INT, 524_288, "Size of the log cleaner's I/O buffers in bytes.", _NOT_NEGATIVE),
    _key(
        "log.cleaner.io.max.bytes.per.second", _T.DOUBLE, 1.7976931348623157e308, "Maximum rate of the log cleaner's I/O in bytes a second."
    ),
    _key("metric.reporters", _T.LIST, ("org.apache.kafka.common.metrics.JmxReporter",), "Java classes that report metrics."),
    _key("config.providers", _T.LIST, (), "Java classes that provide values of settings."),
    _key(
        "follower.fetch.last.tiered.offset.enable",
        _T.BOOLEAN,
        False,
        "Whether a new follower of a tiered log starts at the last tiered offset.",
    ),
    _key(
        "group.coordinator.cached.buffer.max.bytes", _T.INT, 1_048_588, "Largest write buffer that a coordinator keeps for reuse.", _BUFFER
    ),
    _key(
        "share.coordinator.cached.buffer.max.bytes", _T.INT, 1_048_588, "Largest write buffer that a coordinator keeps for reuse.", _BUFFER
    ),
    _key("remote.fetch.max.wait.ms", _T.INT, 500, "Tiered storage: longest wait of a Fetch.", _POSITIVE),
    _key("remote.list.offsets.request.timeout.ms", _T.LONG, 30_000, "Tiered storage: longest wait of a ListOffsets request.", _POSITIVE),
    _key(
        "remote.log.index.file.cache.total.size.bytes",
        _T.LONG,
        1_073_741_824,
        "Tiered storage: size of the index cache in bytes.",
        _POSITIVE,
    ),
    _key(
        "remote.log.manager.copy.max.bytes.per.second",
        _T.LONG,
        INT64_MAX,
        "Tiered storage: maximum rate of copying in bytes a second.",
        _POSITIVE,
    ),
    _key(
        "remote.log.manager.fetch.max.bytes.per.second",
        _T.LONG,
        INT64_MAX,
        "Tiered storage: maximum rate of reading in bytes a second.",
        _POSITIVE,
    ),
    _key("remote.log.manager.copier.thread.pool.size", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    _key("remote.log.manager.expiration.thread.pool.size", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    _key("remote.log.manager.follower.thread.pool.size", _T.INT, 2, _THREADS_DOC, _POSITIVE),
    _key("remote.log.reader.threads", _T.INT, 10, _THREADS_DOC, _POSITIVE),
    ConfigKey(CORDONED, _T.LIST, (), "Data directories in which a cluster places no new partitions.", dynamic=True, cluster_only=True),
    _key("sasl.kerberos.kinit.cmd", _T.STRING, "/usr/bin/kinit", _TICKETS),
    _key("sasl.kerberos.min.time.before.relogin", _T.LONG, 60_000, _TICKETS),
    _key("sasl.kerberos.ticket.renew.jitter", _T.DOUBLE, 0.05, _TICKETS),
    _key("sasl.kerberos.ticket.renew.window.factor", _T.DOUBLE, 0.8, _TICKETS),
    _key("sasl.login.refresh.buffer.seconds", _T.SHORT, 300, _LOG_IN),
    _key("sasl.login.refresh.min.period.seconds", _T.SHORT, 60, _LOG_IN),
    _key("sasl.login.refresh.window.factor", _T.DOUBLE, 0.8, _LOG_IN),
    _key("sasl.login.refresh.window.jitter", _T.DOUBLE, 0.05, _LOG_IN),
    _throttle(
        "leader.replication.throttled.rate", "Maximum rate, in bytes a second, at which leaders send to throttled followers in a cluster."
    ),
    _throttle("follower.replication.throttled.rate", "Maximum rate, in bytes a second, at which throttled followers fetch in a cluster."),
    _throttle(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "Maximum rate of moves between data directories. Stored, without effect.",
        has_effect=False,
    ),
)


def _controllers(
    name: str, kind: ConfigType, default: Value, doc: str, validator: Validator | None = None, *, internal: bool = False
) -> ConfigKey:
    return ConfigKey(name, kind, default, f"{doc} Applied by controllers only.", validator, internal=internal)


def _quorum(name: str, default: int, doc: str) -> ConfigKey:
    return ConfigKey(name, _T.INT, default, f"{doc} Stored, without effect.", _NOT_NEGATIVE, has_effect=False)


_OF_CONTROLLERS = (
    _controllers("auto.leader.rebalance.enable", _T.BOOLEAN, True, "Whether preferred leaders are elected automatically."),
    _controllers("broker.session.timeout.ms", _T.INT, 9_000, "A broker that sends no heartbeat for this long is fenced."),
    _quorum("controller.quorum.append.linger.ms", 25, "How long the leader collects records before it writes them."),
    _controllers("controller.quorum.auto.join.enable", _T.BOOLEAN, False, "Whether a controller joins its quorum automatically."),
    _quorum("controller.quorum.election.backoff.max.ms", 1_000, "Longest pause before an election."),
    _quorum("controller.quorum.election.timeout.ms", 1_000, "How long an election may take."),
    _controllers("leader.imbalance.check.interval.seconds", _T.LONG, 300, "Interval of the checks for preferred leaders.", _POSITIVE),
    _quorum("metadata.max.idle.interval.ms", 500, "Interval of the no-op records of an idle controller."),
    _controllers(
        "unclean.leader.election.interval.ms", _T.LONG, 300_000, "Interval of the checks for unclean elections.", _POSITIVE, internal=True
    ),
)

_OF_STREAMS_GROUPS = (
    ConfigKey("group.streams.assignors", _T.LIST, ("sticky",), "The assignors of streams groups.", each_of("sticky")),
    ConfigKey(
        "group.streams.topology.description.plugin.class",
        _T.CLASS,
        None,
        "A Java class that keeps descriptions of topologies. Stored, without effect.",
        has_effect=False,
    ),
)

OF_CONTROLLERS: Final = frozenset(key.name for key in _OF_CONTROLLERS)
"""The names of the stored settings that only a controller applies."""

STORED_SETTINGS: Final[dict[str, ConfigKey]] = {key.name: key for key in (*_DYNAMIC, *_OF_STREAMS_GROUPS, *_OF_CONTROLLERS)}
