"""Runs the audit, which checks the consistency of logs, over the disks of a simulated cluster, as over those of real brokers."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.sim.sim_cluster import SimCluster
from ottla.broker.testing.verdict import audit_findings


def audited(cluster: SimCluster, topics: list[str]) -> list[str]:
    """Return a text for each violation that the audit (`ottla audit`, which checks the consistency of logs) finds in the simulated brokers'
    logs of `topics`, and for each difference between the brokers' logs. The list is also empty if the audit is not installed."""
    with TemporaryDirectory(prefix="ottla-sim-") as place:
        directories = [_written(node.files, Path(place) / node.host) for node in cluster.nodes.values()]
        return [f"audit: {finding.replace(place, '')}" for finding in audit_findings(directories, topics, replicas=True)]


def _written(files: MemoryFiles, to: Path) -> Path:
    """Write the files of a simulated disk, including unsynced data, to real files in the directory `to`, and return `to`."""
    for path, node in files.nodes.items():
        target = to / path.relative_to("/").relative_to(path.parts[1])
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(node.data)
    return to
