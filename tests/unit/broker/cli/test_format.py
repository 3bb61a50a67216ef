from __future__ import annotations

from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from client_compat.support.ports import free_port
from ottla.broker.cli.format import format_
from ottla.broker.cluster.raft_records import VoterEndpoint
from ottla.broker.cluster.snapshots import read_snapshot
from ottla.broker.security.scram import SCRAM_KINDS, SHA_256, salted_password
from ottla.broker.storage.meta_properties import decode_meta
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from tests.support.logins import ScramClient, authenticate, handshake, log_in, secured
from tests.support.running_broker import HOST, RunningBroker

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


def test_format_prints_kafkas_messages_and_formats_a_broker_once(tmp_path: Path) -> None:
    made = formatted(tmp_path, "--no-initial-controllers", "-r", "3.9", "-f", "group.version=0")
    assert made.exit_code == 0
    assert made.output == f"Formatting metadata directory {tmp_path / 'data'} with metadata.version 3.9-IV0.\n"
    assert "cluster.id=MkU3OEVBNTcwNTJENDM2Qg\n" in (tmp_path / "data" / "meta.properties").read_text()
    again = formatted(tmp_path, "--ignore-formatted")
    assert (again.exit_code, again.output) == (0, "All of the log directories are already formatted.\n")
    assert "is already formatted" in formatted(tmp_path).output


def test_scram_users_of_the_format_authenticate_and_later_users_come_from_the_controller(tmp_path: Path) -> None:
    controller = free_port()
    given = {
        **secured(),
        "process.roles": "broker,controller",
        "node.id": "2",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller}",
        "controller.listener.names": "C",
        "listeners": f"SECURE://{HOST}:{free_port()},PLAINTEXT://{HOST}:{free_port()},C://{HOST}:{controller}",
        "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT,C:PLAINTEXT",
    }
    underlined = {name.replace(".", "_"): text for name, text in given.items()}
    made = formatted(
        tmp_path,
        "--standalone",
        "-S",
        "SCRAM-SHA-512=[name=carol,password=her own]",
        **underlined,
    )
    assert made.exit_code == 0, made.output

    def comes_in(user: str, password: str, mechanism: str) -> bool:
        with running.client() as client:
            scram = ScramClient(user, password, SCRAM_KINDS[mechanism].hash)
            handshake(client, mechanism)
            first = authenticate(client, scram.first())
            return not first.error_code and not authenticate(client, scram.final(bytes(first.auth_bytes))).error_code

    with RunningBroker(tmp_path / "data", given) as running:
        assert comes_in("carol", "her own", "SCRAM-SHA-512")
        assert not comes_in("dave", "his", "SCRAM-SHA-256")
        with running.client() as client:
            log_in(client)
            salted = salted_password(SHA_256, "his", b"salt", 4096)
            request = AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion("dave", SHA_256.number, 4096, b"salt", salted)])
            assert [result.error_code for result in client.call(request, 0).results] == [0]
            described = client.call(DescribeUserScramCredentialsRequest(None), 0)
            while {result.user for result in described.results} != {"carol", "dave"}:  # the broker follows its controller
                described = client.call(DescribeUserScramCredentialsRequest(None), 0)
        assert comes_in("dave", "his", "SCRAM-SHA-256")


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        (["--standalone"], {}, "--standalone can only be used on a controller"),
        (["-I", "1@h:1:x"], {}, "--initial-controllers is for Apache Kafka's controllers"),
        (["-S", "SCRAM-SHA-256=[name=a]"], {}, "--add-scram: You must supply one of 'password' or 'saltedpassword'"),
        (["-f", "group.version"], {}, "--feature group.version: expected NAME=LEVEL"),
        (["-r", "2.8"], {}, "Unknown metadata.version '2.8'"),
        (["-f", "kraft.version=1"], {"controller_quorum_voters": "1@h:1"}, "Cannot set kraft.version to 1"),
        ([], {"process_roles": ""}, "only a node with process.roles is formatted"),
        ([], {"process_roles": "broker,controller"}, "CONTROLLER must be among listeners"),
        ([], {"listeners": "CONTROLLER://h:1"}, "CONTROLLER must not be among listeners"),
        ([], {"no_such": "1"}, "Unknown setting no.such"),
    ],
)
def test_format_of_a_broker_rejects_controller_options_and_writes_nothing(
    tmp_path: Path, options: list[str], settings: dict[str, str], words: str
) -> None:
    refused = formatted(tmp_path, *options, **settings)
    assert refused.exit_code == 1
    assert words in refused.output
    assert not (tmp_path / "data").exists()


CONTROLLER = {"process_roles": "controller", "listeners": "CONTROLLER://localhost:9093"}


def test_formatted_controller_directory_names_it_as_the_only_voter(tmp_path: Path) -> None:
    made = formatted(tmp_path, "--standalone", **CONTROLLER)
    data = tmp_path / "data"
    assert made.output == f"Formatting dynamic metadata voter directory {data} with metadata.version 4.4-IV2.\n"
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


def test_controller_of_a_static_quorum_has_no_voters_in_its_bootstrap_snapshot(tmp_path: Path) -> None:
    static = {"controller_quorum_bootstrap_servers": "", "controller_quorum_voters": "2@localhost:9093"}
    assert formatted(tmp_path, **CONTROLLER, **static).exit_code == 0
    snapshot = read_snapshot((tmp_path / "data" / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").read_bytes())
    assert (snapshot.kraft_version, snapshot.voters) == (0, None)


@pytest.mark.parametrize(
    ("options", "settings", "words"),
    [
        ([], {}, "--standalone makes it the voter"),
        (["--no-initial-controllers"], {}, "--standalone makes it the voter"),
        (["--standalone"], {"controller_quorum_voters": "2@h:1"}, "--standalone cannot be used"),
        (["--standalone"], {"controller_quorum_voters": "2@h:1,3@h:2"}, "for a quorum of several voters, use Apache Kafka's controllers"),
    ],
)
def test_format_rejects_a_controller_that_is_not_the_only_voter(
    tmp_path: Path, options: list[str], settings: dict[str, str], words: str
) -> None:
    refused = formatted(tmp_path, *options, **CONTROLLER, **settings)
    assert refused.exit_code == 1
    assert words in refused.output
    assert not (tmp_path / "data").exists()
