"""The first start of a cluster's node: `cluster.id` says which cluster a new directory is formatted for, as containers want it.

Without that setting a node whose directory nobody formatted does not start, as with Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.core.settings_load import data_dir
from ottla.broker.net.listeners import controller_listeners_of, endpoints_of
from ottla.broker.storage.formatting import format_directory

if TYPE_CHECKING:
    from ottla.broker.core.settings import BrokerSettings


def format_where_new(settings: BrokerSettings, now_ms: int) -> bool:
    """Formats the directory of a node with `process.roles` and `cluster.id`, if nobody did; whether it was done.

    A controller that nothing names is its quorum's voter (`--standalone`). Raises SettingsError, and LogDirRefused where the directory is
    another node's or of another cluster.
    """
    if settings.cluster_id is None or not (settings.is_member or settings.is_controller):
        return False
    dynamic = not settings.controller_quorum_voters
    levels = bootstrap_levels({}, None, dynamic_quorum=dynamic)
    voter_at = own_endpoints(settings) if settings.is_controller and dynamic else []
    return format_directory(
        data_dir(settings), settings.cluster_id, settings.node_id, levels, now_ms, ignore_formatted=True, voter_at=voter_at
    )


def own_endpoints(settings: BrokerSettings) -> list[VoterEndpoint]:
    """Where a quorum's one voter is reached. Raises SettingsError."""
    return [VoterEndpoint(at.name, at.host, at.port) for at in endpoints_of(controller_listeners_of(settings))]
