"""Kafka's broker settings that have no effect here. A server.properties file written for Kafka may contain them: the broker starts
and logs a note.

A name that is neither here nor in STORED_SETTINGS or BROKER_KEYS stops the start, because a misspelt setting must not be ignored
silently.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.broker.core.stored_settings import STORED_SETTINGS

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")

IGNORED_PREFIXES = (
    "remote.log.",
    "remote.fetch.",
    "rlmm.config.",
    "rsm.config.",
    "share.",
    "group.share.",
    "group.streams.",
    "zookeeper.",
    "kafka.metrics.",
    "metadata.log.",
    "metadata.max.",
    "controlled.shutdown.",
    "controller.",
    "metrics.",
    "replica.fetch.",
    "password.encoder.",
    "alter.",
    "quota.",
)

IGNORED_NAMES = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "client.quota.callback.class",
        "control.plane.listener.name",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "eligible.leader.replicas.enable",
        "fetch.purgatory.purge.interval.requests",
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.new.enable",
        "group.coordinator.threads",
        "inter.broker.protocol.version",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "leader.imbalance.per.broker.percentage",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "max.request.partition.size.limit",
        "num.replica.alter.log.dirs.threads",
        "offsets.commit.required.acks",
        "offsets.topic.compression.codec",
        "producer.purgatory.purge.interval.requests",
        "queued.max.requests",
        "replica.socket.receive.buffer.bytes",
        "reserved.broker.max.id",
        "server.max.startup.time.ms",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        *(f"sasl.login.{name}" for name in ("connect.timeout.ms", "read.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms")),
        *(f"sasl.oauthbearer.assertion.{name}" for name in ("algorithm", "file", "private.key.file", "template.file")),
        *(f"sasl.oauthbearer.assertion.claim.{name}" for name in ("aud", "exp.seconds", "iss", "jti.include", "nbf.seconds", "sub")),
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "transaction.state.log.load.buffer.size",
        "transaction.two.phase.commit.enable",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)


IGNORED_SECRETS: Final = frozenset(
    {"sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase"}
)
"""The ignored settings whose values are secret."""


_OF_OLDER_RELEASES: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "eligible.leader.replicas.enable",
        "group.coordinator.new.enable",
        "inter.broker.protocol.version",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "reserved.broker.max.id",
    }
)
_BELOW_PREFIXES: Final[dict[str, str]] = {
    "alter.": "config.policy.class.name log.dirs.replication.quota.window.num log.dirs.replication.quota.window.size.seconds",
    "controlled.shutdown.": "enable",
    "controller.": "listener.names quota.window.num quota.window.size.seconds socket.timeout.ms performance.sample.period.ms "
    "performance.always.log.threshold.ms",
    "controller.quorum.": "bootstrap.servers fetch.max.bytes fetch.snapshot.max.bytes fetch.timeout.ms request.timeout.ms "
    "retry.backoff.ms voters",
    "group.share.": "assignors",
    "group.streams.": "max.size",
    "kafka.metrics.": "polling.interval.secs reporters",
    "metadata.log.": "dir max.record.bytes.between.snapshots max.snapshot.interval.ms segment.bytes segment.ms",
    "metadata.max.": "retention.bytes retention.ms",
    "metrics.": "num.samples recording.level sample.window.ms",
    "quota.": "window.num window.size.seconds",
    "remote.log.manager.": "copy.quota.window.num copy.quota.window.size.seconds fetch.quota.window.num "
    "fetch.quota.window.size.seconds task.interval.ms thread.pool.size",
    "remote.log.metadata.": "custom.metadata.max.bytes manager.class.name manager.class.path manager.impl.prefix manager.listener.name",
    "remote.log.": "reader.max.pending.tasks storage.manager.class.name storage.manager.class.path storage.manager.impl.prefix "
    "storage.system.enable",
    "replica.fetch.": "backoff.ms max.bytes min.bytes response.max.bytes wait.max.ms",
    "share.": "fetch.purgatory.purge.interval.requests",
    "share.coordinator.": "append.linger.ms state.topic.compression.codec threads",
}
_DEFINED: Final = (IGNORED_NAMES | IGNORED_SECRETS) - _OF_OLDER_RELEASES | {
    prefix + rest for prefix, names in _BELOW_PREFIXES.items() for rest in names.split()
}


def is_defined(name: str) -> bool:
    """Return whether Kafka 4.3 defines this ignored setting. Names that it does not define can be set freely while a broker runs,
    as in Kafka.
    """
    return name in _DEFINED


def is_ignored(name: str) -> bool:
    """Return whether `name` is a Kafka setting without effect here, with or without a listener prefix."""
    match = _OF_A_LISTENER.fullmatch(name)
    base = name if match is None else match[1]
    return base in STORED_SETTINGS or base in IGNORED_NAMES or base in IGNORED_SECRETS or base.startswith(IGNORED_PREFIXES)
