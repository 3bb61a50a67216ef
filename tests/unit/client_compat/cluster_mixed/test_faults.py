from __future__ import annotations

import random
from pathlib import Path

from client_compat.cluster_mixed.faults import ways_to_cut
from client_compat.kafka.cluster import ALL_OTTLA, Cluster, Kind


def test_node_links_are_cut_in_one_or_both_directions_to_one_or_several_nodes(tmp_path: Path) -> None:
    nodes = Cluster(tmp_path, ALL_OTTLA, controller_kind=Kind.OTTLA).nodes
    rng = random.Random(5)
    for node in nodes:
        drawn = [ways_to_cut(node, nodes, rng)[0] for _ in range(200)]
        assert all(node.node_id in way and way[0] != way[1] for ways in drawn for way in ways)
        assert {len(ways) for ways in drawn} >= {1, 2, 3, 6}
        assert {way for ways in drawn for way in ways} >= {(node.node_id, other.node_id) for other in nodes if other is not node}
