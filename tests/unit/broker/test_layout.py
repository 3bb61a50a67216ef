from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.broker.layout import CONTROLLER_ID, Layout, fitted
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.meta_properties import decode_meta

DATA = Path("/data")


def test_ports_are_consecutive_with_the_controllers_last() -> None:
    layout = Layout(DATA, 3, port=9092)
    assert layout.broker_settings(2, 9095)["listeners"] == "PLAINTEXT://127.0.0.1:9093"
    assert layout.controller_settings()["listeners"] == "CONTROLLER://127.0.0.1:9095"
    assert layout.controller_settings(port=7)["listeners"] == "CONTROLLER://127.0.0.1:7"
    assert Layout(DATA, 3, port=0).broker_settings(2, 9095)["listeners"] == "PLAINTEXT://127.0.0.1:0"
    assert Layout(DATA, 3, "::1").broker_settings(1, 9095)["listeners"] == "PLAINTEXT://[::1]:9092"


def test_directories_are_formatted_once_and_keep_their_cluster_id() -> None:
    files, layout = MemoryFiles(), Layout(DATA, 2)
    layout.format(files, Random(1).randbytes, 0)
    ids = {decode_meta(files.read_bytes(path / "meta.properties")) for path in (layout.directory_of(1), layout.directory_of(2))}
    assert {each.node_id for each in ids} == {1, 2}
    Layout(DATA, 3).format(files, Random(2).randbytes, 0, "AAAAAAAAAAAAAAAAAAAAAQ")
    third = decode_meta(files.read_bytes(layout.directory_of(3) / "meta.properties"))
    assert {each.cluster_id for each in ids} == {third.cluster_id}


def test_an_unreadable_controller_directory_is_refused() -> None:
    files, layout = MemoryFiles(), Layout(DATA, 1)
    files.make_dir(layout.controller_directory)
    files.write(layout.controller_directory / "meta.properties", b"version=9", sync=True)
    with pytest.raises(LogDirRefused, match=r"controller/meta\.properties"):
        layout.format(files, Random(1).randbytes, 0)


@pytest.mark.parametrize(("brokers", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (5, "3", "2")])
def test_internal_topics_have_up_to_three_replicas(brokers: int, replicas: str, in_sync: str) -> None:
    given = {"node.id": str(CONTROLLER_ID)}
    assert fitted(given, {}, brokers) == {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        **given,
    }
    assert "offsets.topic.replication.factor" not in fitted(given, {"offsets.topic.replication.factor": "file"}, brokers)
