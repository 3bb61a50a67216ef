"""`ottla format` writes what `kafka-storage format` writes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from client_compat.kafka.jars import default_version
from client_compat.kafka.reference import java_command
from ottla.broker.cli.format import format_
from ottla.broker.storage.meta_properties import decode_meta
from tests.support.apache_kafka import jars_or_skip

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
OPTIONS = {
    "newest": ("--no-initial-controllers",),
    "older": ("--release-version", "4.0", "--feature", "transaction.version=1", "--feature", "eligible.leader.replicas.version=1"),
}


def properties(directory: Path) -> Path:
    file = directory.with_suffix(".properties")
    file.write_text(
        "process.roles=broker\nnode.id=7\ncontroller.quorum.bootstrap.servers=localhost:9093\nlisteners=PLAINTEXT://localhost:9092\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={directory}\n"
    )
    return file


def arguments(directory: Path, options: tuple[str, ...]) -> list[str]:
    return ["--cluster-id", CLUSTER_ID, "--config", str(properties(directory)), *options]


@pytest.mark.parametrize("name", OPTIONS)
def test_format_command_writes_the_same_files_as_kafkas_storage_tool(name: str, tmp_path: Path) -> None:
    jars_or_skip()
    kafkas, ours = tmp_path / "kafka", tmp_path / "ottla"
    command = java_command(default_version(), "kafka.tools.StorageTool", "format", *arguments(kafkas, OPTIONS[name]))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    app = typer.Typer()
    app.command()(format_)
    result = CliRunner().invoke(app, arguments(ours, OPTIONS[name]))
    assert result.output.replace(str(ours), str(kafkas)).strip() == done.stdout.strip().splitlines()[-1]

    assert sorted(path.name for path in ours.iterdir()) == sorted(path.name for path in kafkas.iterdir())
    meta, of_kafka = (decode_meta((at / "meta.properties").read_bytes()) for at in (ours, kafkas))
    assert (meta.cluster_id, meta.node_id) == (of_kafka.cluster_id, of_kafka.node_id) == (CLUSTER_ID, 7)
    lines, of_kafkas = ((at / "meta.properties").read_text().splitlines() for at in (ours, kafkas))
    assert [line.partition("=")[0] for line in lines[2:]] == [line.partition("=")[0] for line in of_kafkas[2:]]
