"""Ottla from another directory, for example a git worktree of the previous commit.

Rule: only the package `ottla` comes from that directory. The interpreter and the libraries are those of the benchmark, so that nothing else
differs.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from client_compat.bench.model import Peer
from client_compat.bench.peers import secured
from client_compat.bench.peers.clusters import ClusterProcesses
from client_compat.kafka.cluster import Kind
from client_compat.support.brokers import BrokerProcess
from client_compat.support.ports import free_port

_OURS = Path(__file__).parents[3]
_COMPILED = "protocol/records/walk.*.so"


def peer(name: str, source: Path) -> Peer:
    """Return a peer (a broker to compare) that runs the Ottla checkout `source`."""
    source = source.absolute()
    return Peer(
        name,
        f"Ottla of {source.name}",
        partial(make, source, name),
        make_cluster=partial(_three, source),
        make_secured=partial(_secured, source),
    )


def make(source: Path, name: str, directory: Path) -> BrokerProcess:
    """Return a broker, not started, that runs the Ottla checkout `source` with its data in `directory`."""
    port = free_port()
    argv = [*_command(source), "serve", "--data-dir", str(directory / "data"), "--port", str(port)]
    return BrokerProcess(argv, port, directory / "broker.log", name=name)


def _three(source: Path, directory: Path) -> BrokerProcess:
    return ClusterProcesses.over(directory, Kind.OTTLA, _command(source))


def _secured(source: Path, directory: Path) -> BrokerProcess:
    return secured.ottla(directory, _command(source))


def _command(source: Path) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(source)!r}); from ottla.broker.cli import main; main()"]


def why_not(source: Path) -> str | None:
    """Return why the Ottla checkout `source` cannot be measured; None if it can."""
    if not (source / "ottla" / "broker" / "cli" / "__init__.py").is_file():
        return f"{source} holds no source of Ottla"
    if any(_OURS.glob(_COMPILED)) and not any(source.glob(_COMPILED)):
        return f"{source} has not compiled what is compiled here ({_COMPILED}): the comparison would be of that"
    return None
