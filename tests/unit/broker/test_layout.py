from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.broker.layout import CONTROLLER_ID, Layout, assign_new_cluster_id, brokers_in, with_replication_settings
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import Files
from ottla.broker.storage.meta_properties import FILE_NAME, decode_meta

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
    assert with_replication_settings(given, {}, brokers) == {
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        **given,
    }
    assert "offsets.topic.replication.factor" not in with_replication_settings(given, {"offsets.topic.replication.factor": "file"}, brokers)


def test_a_separated_copy_is_another_cluster_whose_brokers_read_the_metadata_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path, 2)
    layout.format(Files(), Random(1).randbytes, 0, "a-cluster")
    log = layout.directory_of(1) / "__cluster_metadata-0" / "00000000000000000000.log"
    log.parent.mkdir(exist_ok=True)
    (log.parent / "partition.metadata").touch()
    log.write_bytes(b"the address of the original's controller")
    nodes = [layout.controller_directory, layout.directory_of(1), layout.directory_of(2)]
    before = [decode_meta((node / FILE_NAME).read_bytes()) for node in nodes]
    assert brokers_in(tmp_path, nodes) == 2
    assert brokers_in(tmp_path, nodes[1:]) is None
    assign_new_cluster_id(tmp_path, 2, Random(2).randbytes, 0)
    after = [decode_meta((node / FILE_NAME).read_bytes()) for node in nodes]
    (cluster_id,) = {meta.cluster_id for meta in after}
    assert cluster_id != "a-cluster"
    assert [(meta.node_id, meta.directory_id) for meta in after] == [(meta.node_id, meta.directory_id) for meta in before]
    assert [file.name for file in log.parent.iterdir()] == ["partition.metadata"]
    assert len(list((layout.controller_directory / "__cluster_metadata-0").iterdir())) > 1
