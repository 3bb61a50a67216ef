"""Kafka's broker settings that have no meaning here (yet). A server.properties of a real Kafka may hold them: they are accepted with a
note.

A name that is neither here nor in KEPT_KEYS or BROKER_KEYS stops the start, so that a misspelt setting is never silently without effect.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.broker.core.kept_keys import KEPT_KEYS

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
        "cordoned.log.dirs",
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
        *(
            f"sasl.kerberos.{name}"
            for name in ("kinit.cmd", "min.time.before.relogin", "ticket.renew.jitter", "ticket.renew.window.factor")
        ),
        *(f"sasl.login.{name}" for name in ("connect.timeout.ms", "read.timeout.ms", "retry.backoff.max.ms", "retry.backoff.ms")),
        *(f"sasl.login.refresh.{name}" for name in ("buffer.seconds", "min.period.seconds", "window.factor", "window.jitter")),
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
"""Those of them that nobody is to read."""


def is_ignored(name: str) -> bool:
    """Whether `name` is a setting of Kafka's that changes nothing here, be it for one listener or for all."""
    match = _OF_A_LISTENER.fullmatch(name)
    base = name if match is None else match[1]
    return base in KEPT_KEYS or base in IGNORED_NAMES or base in IGNORED_SECRETS or base.startswith(IGNORED_PREFIXES)
