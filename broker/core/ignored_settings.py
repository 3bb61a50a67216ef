"""Kafka's broker settings that have no meaning here (yet). A server.properties of a real Kafka may hold them: they are accepted with a
note.

A name that is neither here nor in KEPT_KEYS or BROKER_KEYS stops the start, so that a misspelt setting is never silently without effect.
"""

from __future__ import annotations

from ottla.broker.core.kept_keys import KEPT_KEYS

IGNORED_PREFIXES = (
    "ssl.",
    "sasl.",
    "listener.name.",
    "remote.log.",
    "remote.fetch.",
    "rlmm.config.",
    "rsm.config.",
    "principal.",
    "share.",
    "group.share.",
    "group.streams.",
    "telemetry.",
    "zookeeper.",
    "delegation.token.",
    "kafka.metrics.",
    "metadata.log.",
    "metadata.max.",
    "controlled.shutdown.",
    "controller.",
    "metrics.",
    "replica.fetch.",
    "replication.quota.",
    "password.encoder.",
    "alter.",
    "quota.",
)

IGNORED_NAMES = frozenset(
    {
        "add.partitions.to.txn.retry.backoff.max.ms",
        "add.partitions.to.txn.retry.backoff.ms",
        "allow.everyone.if.no.acl.found",
        "authorizer.class.name",
        "auto.include.jmx.reporter",
        "auto.leader.rebalance.enable",
        "broker.heartbeat.interval.ms",
        "broker.id.generation.enable",
        "broker.session.timeout.ms",
        "client.quota.callback.class",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "control.plane.listener.name",
        "cordoned.log.dirs",
        "create.topic.policy.class.name",
        "delete.records.purgatory.purge.interval.requests",
        "early.start.listeners",
        "eligible.leader.replicas.enable",
        "fetch.purgatory.purge.interval.requests",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.append.linger.ms",
        "group.coordinator.background.threads",
        "group.coordinator.new.enable",
        "group.coordinator.threads",
        "initial.broker.registration.timeout.ms",
        "inter.broker.listener.name",
        "inter.broker.protocol.version",
        "internal.metadata.delete.delay.millis",
        "internal.metadata.log.segment.bytes",
        "internal.metadata.max.batch.size.in.bytes",
        "leader.imbalance.check.interval.seconds",
        "leader.imbalance.per.broker.percentage",
        "log.dir.failure.timeout.ms",
        "log.flush.scheduler.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.difference.max.ms",
        "max.request.partition.size.limit",
        "num.replica.alter.log.dirs.threads",
        "offsets.commit.required.acks",
        "offsets.commit.timeout.ms",
        "offsets.topic.compression.codec",
        "process.roles",
        "producer.purgatory.purge.interval.requests",
        "queued.max.requests",
        "replica.lag.time.max.ms",
        "replica.selector.class",
        "replica.socket.receive.buffer.bytes",
        "replica.socket.timeout.ms",
        "request.timeout.ms",
        "reserved.broker.max.id",
        "security.inter.broker.protocol",
        "security.providers",
        "server.max.startup.time.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "super.users",
        "transaction.state.log.load.buffer.size",
        "transaction.two.phase.commit.enable",
        "unclean.leader.election.interval.ms",
        "unstable.api.versions.enable",
        "unstable.feature.versions.enable",
    }
)


def is_ignored(name: str) -> bool:
    """Whether `name` is a setting of Kafka's that changes nothing here."""
    return name in KEPT_KEYS or name in IGNORED_NAMES or name.startswith(IGNORED_PREFIXES)
