"""Runs the audit, which checks the consistency of logs, over the disks of a simulated cluster, as over those of real brokers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.testing.verdict import audit_findings


def audited(cluster: SimCluster, topics: list[str]) -> list[str]:
    """Return the violations that the audit finds in each simulated broker's logs of `topics`, and the differences that it finds between the
    brokers' logs. If the audit is not installed, return none."""
    with TemporaryDirectory(prefix="ottla-sim-") as place:
        directories = [_written(node.files, Path(place) / node.host) for node in cluster.nodes.values()]
        return [f"audit: {finding.replace(place, '')}" for finding in audit_findings(directories, topics, replicas=True)]


def _written(files: MemoryFiles, to: Path) -> Path:
    """Write the files of a simulated disk, including unsynced data, to real files in the directory `to`; return the directory that has
    them."""
    for path, node in files.nodes.items():
        target = to / path.relative_to("/").relative_to(path.parts[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(node.data)
    return to
