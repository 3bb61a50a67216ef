from __future__ import annotations

from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from ottla.broker.cli.format import format_

BROKER = {
    "process.roles": "broker",
    "node.id": "2",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
}


def formatted(tmp_path: Path, *options: str, **settings: str) -> Result:
    given = {**BROKER, "log.dirs": str(tmp_path / "data"), **{name.replace("_", "."): text for name, text in settings.items()}}
    file = tmp_path / "broker.properties"
    file.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    app = typer.Typer()
    app.command()(format_)
    return CliRunner().invoke(app, ["--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg", "--config", str(file), *options], env={"NO_COLOR": "1"})


def test_a_brokers_directory_is_formatted_as_kafkas_tool_says_it(tmp_path: Path) -> None:
    made = formatted(tmp_path, "--no-initial-controllers", "-r", "3.9", "-f", "group.version=0")
    assert made.exit_code == 0
    assert made.output == f"Formatting metadata directory {tmp_path / 'data'} with metadata.version 3.9-IV0.\n"
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n" in (tmp_path / "data" / "meta.properties").read_text()
    again = formatted(tmp_path, "--ignore-formatted")
    assert (again.exit_code, again.output) == (0, "All of the log directories are already formatted.\n")
    assert "is already formatted" in formatted(tmp_path).output


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        (["--standalone"], {}, "--standalone can only be used on a controller"),
        (["-I", "1@h:1:x"], {}, "--initial-controllers can only be used on a controller"),
        (["-S", "SCRAM-SHA-256=[name=a,password=b]"], {}, "--add-scram can only be used on a controller"),
        (["-f", "group.version"], {}, "--feature group.version: expected NAME=LEVEL"),
        (["-r", "2.8"], {}, "Unknown metadata.version '2.8'"),
        (["-f", "kraft.version=1"], {"controller_quorum_voters": "1@h:1"}, "Cannot set kraft.version to 1"),
        ([], {"process_roles": "broker,controller"}, "only a broker with process.roles=broker is formatted"),
        ([], {"listeners": "CONTROLLER://h:1"}, "CONTROLLER must not be among listeners"),
        ([], {"no_such": "1"}, "Unknown setting no.such"),
    ],
)
def test_what_is_not_for_a_broker_is_refused_and_nothing_is_written(
    tmp_path: Path, options: list[str], settings: dict[str, str], words: str
) -> None:
    refused = formatted(tmp_path, *options, **settings)
    assert refused.exit_code == 1
    assert words in refused.output
    assert not (tmp_path / "data").exists()
