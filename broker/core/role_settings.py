"""Checks of settings that depend on each other, for a node with process.roles (Kafka's `KafkaConfig.validateValues`).

The rules about listener names are in `ottla.broker.net.listeners`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.core.quorum_addresses import QuorumAddress, bootstrap_servers, voters
from ottla.broker.core.settings import BrokerSettings

MORE_VOTERS: Final = "an Ottla controller is its quorum's only voter; for a quorum of several voters, use Apache Kafka's controllers"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_SELECTORS: Final = (None, "", RACK_AWARE_SELECTOR, "org.apache.kafka.common.replica.LeaderSelector")


def controllers(settings: BrokerSettings) -> list[QuorumAddress]:
    """Return the addresses at which a node first contacts the controllers: the voters in controller.quorum.voters with their ids, or else
    the bootstrap servers."""
    return voters(settings.controller_quorum_voters) or bootstrap_servers(settings.controller_quorum_bootstrap_servers)


def role_problems(settings: BrokerSettings) -> Iterator[str]:
    """Yield one error message, which names a setting, for each reason why a node with the configured `process.roles` cannot start. Without
    roles (a standalone node) there are none.
    """
    if not settings.process_roles:
        return
    roles = ",".join(settings.process_roles)
    if "node.id" not in settings.explicit:
        yield f"node.id must be given when process.roles={roles}"
    named = voters(settings.controller_quorum_voters)
    if not named and not settings.controller_quorum_bootstrap_servers:
        yield f"process.roles={roles} needs controller.quorum.bootstrap.servers, or the controller.quorum.voters of a static quorum"
    if not settings.controller_listener_names:
        yield f"controller.listener.names must contain at least one value when process.roles={roles}"
    if settings.metadata_log_dir not in {None, "", (settings.log_dirs or settings.log_dir)[0]}:
        yield f"metadata.log.dir={settings.metadata_log_dir}: the metadata log must be in the data directory"
    if settings.is_controller:
        yield from _controller_problems(settings)
    elif settings.node_id in {voter.node_id for voter in named}:
        given = ",".join(settings.controller_quorum_voters)
        yield f"controller.quorum.voters={given}: with process.roles=broker the node id {settings.node_id} must not be among them"
    if settings.is_cluster_broker:
        yield from _cluster_broker_problems(settings)


def _controller_problems(settings: BrokerSettings) -> Iterator[str]:
    named, servers = voters(settings.controller_quorum_voters), settings.controller_quorum_bootstrap_servers
    if named and [voter.node_id for voter in named] != [settings.node_id]:
        given = ",".join(settings.controller_quorum_voters)
        yield f"controller.quorum.voters={given}: only this node is allowed, node.id={settings.node_id}: {MORE_VOTERS}"
    if len(servers) > 1:
        yield f"controller.quorum.bootstrap.servers={','.join(servers)}: only this node is allowed: {MORE_VOTERS}"
    if settings.value("controller.quorum.auto.join.enable"):
        yield f"controller.quorum.auto.join.enable=true: {MORE_VOTERS}"


def _cluster_broker_problems(settings: BrokerSettings) -> Iterator[str]:
    if settings.value("controller.quorum.auto.join.enable") and not settings.is_controller:
        yield "controller.quorum.auto.join.enable is only supported when process.roles contains controller"
    if settings.replica_selector_class not in _SELECTORS:
        yield f"replica.selector.class={settings.replica_selector_class}: allowed are {RACK_AWARE_SELECTOR} and none"
    yield from _timing_problems(settings)


def _timing_problems(settings: BrokerSettings) -> Iterator[str]:
    wait = settings.replica_fetch_wait_max_ms
    if wait > settings.replica_socket_timeout_ms:
        yield f"replica.socket.timeout.ms={settings.replica_socket_timeout_ms} must be at least replica.fetch.wait.max.ms={wait}"
    if wait > settings.replica_lag_time_max_ms:
        yield f"replica.fetch.wait.max.ms={wait} must be at most replica.lag.time.max.ms={settings.replica_lag_time_max_ms}"


def advice(settings: BrokerSettings) -> Iterator[str]:
    """Yield a warning text for each setting that is valid but probably a mistake."""
    session = settings.value("broker.session.timeout.ms")
    interval = settings.broker_heartbeat_interval_ms
    if settings.is_cluster_broker and isinstance(session, int) and interval * 2 > session:
        yield (
            f"broker.heartbeat.interval.ms={interval} is more than half of broker.session.timeout.ms={session}: "
            "if the controllers use that timeout, one late heartbeat fences this broker"
        )
