"""Kafka's broker settings that are accepted and ignored. If a server.properties file contains one of them, the broker starts and logs a
note.

A name that is neither here nor in STORED_SETTINGS or BROKER_KEYS, nor a TLS or SASL setting (`security_keys`), prevents the start, because
a misspelt setting must not be ignored silently. `tests/golden/test_settings.py` compares these tables with the names that Kafka defines.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.broker.core.stored_settings import STORED_SETTINGS

_OF_A_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.+)")

IGNORED_PREFIXES: Final = ("metrics.", "password.encoder.", "rlmm.config.", "rsm.config.", "zookeeper.")
"""Every setting whose name begins with one of these prefixes is ignored. Plug-ins define settings with arbitrary names after such a prefix;
`zookeeper.` is the prefix of settings for ZooKeeper's client."""

IGNORED_SECRETS: Final = frozenset(
    {"sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.assertion.private.key.passphrase"}
)
"""The names of the ignored settings that have type PASSWORD: responses must not contain their values."""

_DEFINED: Final = IGNORED_SECRETS | {
    "add.partitions.to.txn.retry.backoff.max.ms",
    "add.partitions.to.txn.retry.backoff.ms",
    "alter.config.policy.class.name",
    "alter.log.dirs.replication.quota.window.num",
    "alter.log.dirs.replication.quota.window.size.seconds",
    "client.quota.callback.class",
    "controller.performance.always.log.threshold.ms",
    "controller.performance.sample.period.ms",
    "create.topic.policy.class.name",
    "delete.records.purgatory.purge.interval.requests",
    "fetch.purgatory.purge.interval.requests",
    "group.consumer.assignor.offload.enable",
    "group.coordinator.append.linger.ms",
    "group.coordinator.background.threads",
    "group.coordinator.threads",
    "group.share.assignor.offload.enable",
    "group.share.assignors",
    "group.share.dlq.manager.class.name",
    "group.share.persister.class.name",
    "group.streams.acceptable.recovery.lag",
    "group.streams.assignor.offload.enable",
    "group.streams.max.warmup.replicas",
    "group.streams.min.task.offset.interval.ms",
    "group.streams.num.warmup.replicas",
    "group.streams.task.offset.interval.ms",
    "internal.metadata.delete.delay.millis",
    "internal.metadata.log.segment.bytes",
    "internal.metadata.max.batch.size.in.bytes",
    "kafka.metrics.polling.interval.secs",
    "kafka.metrics.reporters",
    "log.flush.scheduler.interval.ms",
    "log.flush.start.offset.checkpoint.interval.ms",
    "max.request.partition.size.limit",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "num.replica.alter.log.dirs.threads",
    "offsets.topic.compression.codec",
    "producer.purgatory.purge.interval.requests",
    "queued.max.requests",
    "remote.log.index.file.cache.ttl.ms",
    "remote.log.manager.copy.quota.window.num",
    "remote.log.manager.copy.quota.window.size.seconds",
    "remote.log.manager.fetch.quota.window.num",
    "remote.log.manager.fetch.quota.window.size.seconds",
    "remote.log.manager.task.interval.ms",
    "remote.log.manager.task.retry.backoff.max.ms",
    "remote.log.manager.task.retry.backoff.ms",
    "remote.log.manager.task.retry.jitter",
    "remote.log.manager.thread.pool.size",
    "remote.log.metadata.custom.metadata.max.bytes",
    "remote.log.metadata.manager.class.name",
    "remote.log.metadata.manager.class.path",
    "remote.log.metadata.manager.impl.prefix",
    "remote.log.metadata.manager.listener.name",
    "remote.log.reader.max.pending.tasks",
    "remote.log.storage.manager.class.name",
    "remote.log.storage.manager.class.path",
    "remote.log.storage.manager.impl.prefix",
    "remote.log.storage.system.enable",
    "replica.socket.receive.buffer.bytes",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.jwt.retriever.class",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "server.max.startup.time.ms",
    "share.coordinator.append.linger.ms",
    "share.coordinator.state.topic.compression.codec",
    "share.coordinator.threads",
    "share.fetch.purgatory.purge.interval.requests",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "transaction.state.log.load.buffer.size",
    "transaction.two.phase.commit.enable",
    "unstable.api.versions.enable",
    "unstable.feature.versions.enable",
}
"""The ignored settings that Kafka 4.4 defines."""

_NOT_DEFINED: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "broker.id.generation.enable",
        "control.plane.listener.name",
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
        "eligible.leader.replicas.enable",
        "group.coordinator.new.enable",
        "group.share.enable",
        "group.share.max.groups",
        "inter.broker.protocol.version",
        "leader.imbalance.per.broker.percentage",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "offsets.commit.required.acks",
        "quota.consumer.default",
        "quota.producer.default",
        "reserved.broker.max.id",
        "sasl.oauthbearer.header.urlencode",
    }
)
"""The ignored settings that Kafka 4.4 does not define: settings of older releases, and one that only Kafka's clients define."""

IGNORED_NAMES: Final = _DEFINED | _NOT_DEFINED


def is_defined(name: str) -> bool:
    """Return whether `name` is a setting that this broker ignores and Kafka 4.4 defines. As in Kafka, a setting that Kafka does not define
    can be set freely while a broker runs.
    """
    return name in _DEFINED


def is_ignored(name: str) -> bool:
    """Return whether `name` is a Kafka setting without effect here, with or without a listener prefix."""
    match = _OF_A_LISTENER.fullmatch(name)
    base = name if match is None else match[1]
    return base in STORED_SETTINGS or base in IGNORED_NAMES or base.startswith(IGNORED_PREFIXES)
