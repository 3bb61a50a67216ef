"""Opens the inputs of the commands: directories and clusters pinned at their current state, or clusters fetched into a directory first.

Invariants:
- All queries of a run read each input up to the same place, whatever is appended meanwhile.
- `__transaction_state` and `__consumer_offsets` are always read with the selected topics, because transactions cannot be judged without
  them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.spark_jobs import pins
from ottla.spark_jobs.log_directory import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.spark_jobs.paths import CLUSTER, SCHEME_END, absolute, is_cluster
from ottla.spark_jobs.wire.address import CONFIG_FILE, RATE, STATE_FILE, url_with

ALONG: Final = (TRANSACTION_STATE, CONSUMER_OFFSETS)

BootstrapServer = Annotated[
    str | None, typer.Option(help="Read a cluster over the network, host:port[,host:port]: the same as kafka://host:port as DIR.")
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(help="Client security settings for clusters, as in Kafka's client.properties; by default those of `ottla --config`."),
]
RateLimit = Annotated[int, typer.Option(min=0, help="Fetch no more than so many bytes a second from clusters; 0: as fast as they give.")]
SpoolDir = Annotated[
    Path | None,
    typer.Option(help="Keep what is fetched in this directory; an interrupted run goes on where it ended."),
]


def is_fetched(path: str) -> bool:
    """Return whether a path is a cluster (`kafka://...`), or a directory into which an earlier run fetched a cluster's logs."""
    return is_cluster(path) or (SCHEME_END not in path and Path(path, STATE_FILE).exists())


@dataclass(frozen=True, slots=True)
class Wire:
    """The command-line options for reading clusters over the network. `command_config`: a file of Kafka's client properties.
    `bytes_per_second`: the read limit (0: none). `spool`: the directory into which the logs are fetched first; None: they are read from the
    brokers."""

    command_config: Path | None = None
    bytes_per_second: int = 0
    spool: Path | None = None


@dataclass(slots=True)
class Sources:
    """The inputs of a command after preparation: directories and clusters fixed at their current ends, or clusters fetched into a
    directory. `paths`: the paths to read instead of the user's. `notes`, `problems`: texts about fetching from a cluster, by path."""

    paths: list[str]
    notes: dict[str, list[str]] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)


def with_server(paths: Sequence[str] | None, server: str | None) -> list[str]:
    """Return the paths of a command line including its `--bootstrap-server`. Raises typer.BadParameter if there are none."""
    found = [*(paths or ()), *([CLUSTER + server] if server else [])]
    if not found:
        raise typer.BadParameter("give a DIR, kafka://host:port, or --bootstrap-server host:port")
    return found


@contextmanager
def sources(
    paths: Sequence[str | Path],
    topics: Sequence[str] = (),
    wire: Wire | None = None,
    progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
) -> Iterator[Sources]:
    """Yield the inputs of a command as paths that are valid within the `with` block. Directories and clusters are pinned at their current
    ends, so that batches appended later are not read; with `wire.spool`, clusters are first fetched into that directory. Raises OSError or
    ValueError when a cluster cannot be fetched into it."""
    wire = wire or Wire()
    wanted = list(dict.fromkeys(map(absolute, paths)))
    found = Sources([])
    with tempfile.TemporaryDirectory(prefix="ottla-pins-") as kept_in:
        for i, path in enumerate(wanted):
            if not is_cluster(path):
                found.paths.append(pins.pin(path, Path(kept_in) / f"{i}.json"))
                continue
            url = url_with(path, {CONFIG_FILE: wire.command_config, RATE: wire.bytes_per_second})
            along = [*topics, *ALONG] if topics else []
            if wire.spool is None:
                from ottla.spark_jobs.wire.find import pin  # noqa: PLC0415 # only if logs are read from brokers

                found.paths.append(pin(url, along, Path(kept_in) / f"{i}.json"))
                continue
            from ottla.spark_jobs.wire.spool import spool  # noqa: PLC0415 # only if a cluster is spooled

            kept = str(wire.spool.absolute())
            found.notes[kept], found.problems[kept] = spool(url, wire.spool, along, progress=progress)
            found.paths.append(kept)
        yield found
