from __future__ import annotations

from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from ottla.broker.cli.format import format_
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.snapshots import read_snapshot
from ottla.broker.storage.meta_properties import decode_meta

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
        (["-I", "1@h:1:x"], {}, "--initial-controllers is for Apache Kafka's controllers"),
        (["-S", "SCRAM-SHA-256=[name=a,password=b]"], {}, "--add-scram is for Apache Kafka's controllers"),
        (["-f", "group.version"], {}, "--feature group.version: expected NAME=LEVEL"),
        (["-r", "2.8"], {}, "Unknown metadata.version '2.8'"),
        (["-f", "kraft.version=1"], {"controller_quorum_voters": "1@h:1"}, "Cannot set kraft.version to 1"),
        ([], {"process_roles": ""}, "only a node with process.roles is formatted"),
        ([], {"process_roles": "broker,controller"}, "CONTROLLER must be among listeners"),
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


CONTROLLER = {"process_roles": "controller", "listeners": "CONTROLLER://localhost:9093"}


def test_a_controllers_directory_names_it_as_the_one_voter(tmp_path: Path) -> None:
    made = formatted(tmp_path, "--standalone", **CONTROLLER)
    data = tmp_path / "data"
    assert made.output == f"Formatting dynamic metadata voter directory {data} with metadata.version 4.3-IV0.\n"
    log = data / "__cluster_metadata-0"
    snapshot = read_snapshot((log / "00000000000000000000-0000000000.checkpoint").read_bytes())
    assert snapshot.voters is not None
    assert (snapshot.kraft_version, snapshot.voters.voters[0].voter_id) == (1, 2)
    assert snapshot.voters.voters[0].endpoints == [VoterEndpoint("CONTROLLER", "localhost", 9093)]
    meta = decode_meta((data / "meta.properties").read_bytes())
    assert snapshot.voters.voters[0].voter_directory_id == meta.directory_id


def test_a_node_of_both_roles_is_formatted_as_a_controller(tmp_path: Path) -> None:
    both = {"process_roles": "broker,controller", "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"}
    assert "dynamic metadata voter directory" in formatted(tmp_path, "--standalone", **both).output


def test_a_controller_of_a_static_quorum_has_no_voters_in_its_directory(tmp_path: Path) -> None:
    static = {"controller_quorum_bootstrap_servers": "", "controller_quorum_voters": "2@localhost:9093"}
    assert formatted(tmp_path, **CONTROLLER, **static).exit_code == 0
    assert not (tmp_path / "data" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ([], {}, "--standalone makes it the voter"),
        (["--no-initial-controllers"], {}, "--standalone makes it the voter"),
        (["--standalone"], {"controller_quorum_voters": "2@h:1"}, "--standalone cannot be used"),
        (["--standalone"], {"controller_quorum_voters": "2@h:1,3@h:2"}, "for more of them use Apache Kafka's controllers"),
    ],
)
def test_a_controller_is_the_one_voter_or_is_not_formatted(
    tmp_path: Path, options: list[str], settings: dict[str, str], words: str
) -> None:
    refused = formatted(tmp_path, *options, **CONTROLLER, **settings)
    assert refused.exit_code == 1
    assert words in refused.output
    assert not (tmp_path / "data").exists()
