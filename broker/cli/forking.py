"""Copies data directories for `ottla fork` and `ottla serve --on-copy-of`, and describes the copy in one line. The copy of a whole cluster
gets a new cluster id."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.broker.core.clock import Clock
from ottla.broker.layout import assign_new_cluster_id, brokers_in
from ottla.broker.storage.fork import ForkRefused, ForkReport, fork, node_directories


def fork_directory(source: Path, target: Path, *, links: bool = True) -> ForkReport:
    """Copy a data directory to `target`, which must not exist, also while a broker uses it; return the numbers and sizes of the copied
    files.

    With `links`, closed segments are shared by hard links; pass False for a copy that Apache Kafka will use. The copy of a whole cluster
    (`ottla serve --brokers`) gets a new cluster id, so that its nodes cannot join the original. Raises ForkRefused if the directory cannot
    be copied.
    """
    brokers = brokers_in(source, node_directories(source))

    def finish(copy: Path) -> None:
        if brokers is not None:
            try:
                assign_new_cluster_id(copy, brokers, os.urandom, Clock().now_ms())
            except ValueError as error:
                raise ForkRefused(f"a meta.properties in {source} is damaged: {error}") from error

    return fork(source, target, links=links, finish=finish)


def summary(report: ForkReport) -> str:
    """Return one line about a copied directory: the numbers and sizes of hard-linked, reflinked and copied files."""
    parts = [
        f"{count} {how} ({size / 1e6:,.1f} MB)"
        for how, count, size in (
            ("hard-linked", report.linked, report.linked_bytes),
            ("reflinked", report.cloned, report.cloned_bytes),
            ("copied", report.copied, report.copied_bytes),
        )
        if count
    ]
    state = "shut down cleanly" if report.clean else "in use or crashed, so the copy begins with a recovery"
    nodes = "" if report.nodes == 1 else f" of {report.nodes} nodes"
    return (
        f"{report.target} is a copy of {report.source}: {report.partitions} partitions{nodes}, files: {', '.join(parts) or 'none'}, "
        f"in {report.seconds:.2f} s; the original was {state}"
    )
