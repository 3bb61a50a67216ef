"""The audit over the disks of a simulated cluster, as it is run over those of real brokers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.testing.verdict import audit_findings


def audited(cluster: SimCluster, topics: list[str]) -> list[str]:
    """The violations that the audit's rules find in any broker's logs, and between them; none where the audit is not installed."""
    with TemporaryDirectory(prefix="ottla-sim-") as place:
        directories = [_written(node.files, Path(place) / node.host) for node in cluster.nodes.values()]
        return [f"audit: {told.replace(place, '')}" for told in audit_findings(directories, topics, replicas=True)]


def _written(files: MemoryFiles, to: Path) -> Path:
    """All that is in its page cache, as files."""
    for path, node in files.nodes.items():
        target = to / path.relative_to("/").relative_to(path.parts[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(node.data)
    return to
