"""What the coordinators and the partitions of a cluster's member ask of the cluster's other brokers.

Markers and questions about transactions travel on connections of their own: neither waits behind the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.runtime.coordination.remote_markers import RemoteMarkers
from ottla.broker.runtime.coordination.remote_txns import RemoteTxns

if TYPE_CHECKING:
    from ottla.broker.cluster.catalog import Catalog
    from ottla.broker.runtime.coordination.txn_markers import SendMarker
    from ottla.broker.runtime.coordination.txn_verification import TxnPartitions
    from ottla.broker.runtime.nodes.peers import Peers


class OtherBrokers:
    """`peers` makes the links of one kind of work."""

    def __init__(self, catalog: Catalog, node_id: int, peers: Callable[[], Peers]) -> None:
        self._catalog = catalog
        self._node_id = node_id
        self._peers = peers
        self._made: list[RemoteMarkers | RemoteTxns] = []

    def markers(self, local: SendMarker) -> SendMarker:
        """Brings a marker to whichever broker leads its partition; `local` writes it here."""
        made = RemoteMarkers(local, self._catalog, self._node_id, self._peers())
        self._made.append(made)
        return made.send

    def txns(self, local: TxnPartitions) -> TxnPartitions:
        """Asks whichever broker coordinates a transaction; `local` answers here."""
        made = RemoteTxns(local, self._catalog, self._node_id, self._peers())
        self._made.append(made)
        return made

    def end(self) -> None:
        """Ask nothing more."""
        for made in self._made:
            made.end()
