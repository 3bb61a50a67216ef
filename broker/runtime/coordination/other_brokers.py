"""Makes the clients with which a cluster broker's coordinators and partition leaders send requests to other brokers.

Transaction markers, transaction verification, share state and dead letters use separate connections, so that no kind of request delays
another.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.runtime.coordination.remote_markers import RemoteMarkers
from ottla.broker.runtime.coordination.remote_txns import RemoteTxns
from ottla.broker.runtime.coordination.txn_markers import SendMarker
from ottla.broker.runtime.coordination.txn_verification import TxnPartitions
from ottla.broker.runtime.nodes.peers import Peers
from ottla.broker.runtime.upkeep.nursery import Nursery


class OtherBrokers:
    """Makes the clients that send requests to other brokers. `peers` is called for each client and returns new connections (`Peers`) that
    only this client uses.
    """

    def __init__(self, catalog: Catalog, node_id: int, peers: Callable[[], Peers], nursery: Nursery) -> None:
        self._catalog = catalog
        self._node_id = node_id
        self._peers = peers
        self._nursery = nursery

    def markers(self, local: SendMarker) -> SendMarker:
        """Return a function that sends a transaction marker to a partition's leader. If this broker is the leader, the function calls
        `local` instead."""
        return RemoteMarkers(local, self._catalog, self._node_id, self._peers(), self._nursery).send

    def txns(self, local: TxnPartitions) -> TxnPartitions:
        """Return an object that asks transaction coordinators to add partitions to transactions, or to verify that partitions belong to
        them. For transactions that this broker coordinates, the object calls `local` instead."""
        return RemoteTxns(local, self._catalog, self._node_id, self._peers(), self._nursery)

    def share_peers(self) -> Peers:
        """Return connections to other brokers for share groups: to share coordinators, and to the leaders of share group partitions and of
        dead letter queues.
        """
        return self._peers()
