from __future__ import annotations

from pathlib import Path

import pytest
import typer

from client_compat.kafka.cluster import ALL_KAFKA, Cluster, Kind, Node, kinds_of
from client_compat.kafka.reference import NEW_CLUSTER_ID


def settings_of(node: Node) -> dict[str, str]:
    node.write_properties()
    return dict(line.split("=", 1) for line in node.properties.read_text().splitlines())


def test_every_node_has_its_own_id_and_address_and_all_know_the_controllers(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, [Kind.KAFKA, Kind.OTTLA, Kind.OTTLA], controllers=3)
    settings = [settings_of(node) for node in cluster.nodes]
    assert [one["node.id"] for one in settings] == ["101", "102", "103", "1", "2", "3"]
    assert [one["process.roles"] for one in settings] == ["controller"] * 3 + ["broker"] * 3
    assert len({one["listeners"] for one in settings}) == 6
    controllers = ",".join(node.process.bootstrap for node in cluster.quorum)
    assert {one["controller.quorum.bootstrap.servers"] for one in settings} == {controllers}
    assert cluster.bootstrap == ",".join(node.process.bootstrap for node in cluster.brokers)


def test_broker_switched_to_another_kind_keeps_id_port_and_directory(tmp_path: Path) -> None:
    broker = Cluster(tmp_path).broker(2)
    before, port = settings_of(broker), broker.process.port
    broker.kind = Kind.OTTLA
    assert broker.command[1:] == ["-m", "ottla", "serve", "--config", str(broker.properties)]
    assert (settings_of(broker), broker.process.port) == (before, port)


def test_callers_settings_take_precedence(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, settings={"min.insync.replicas": "1"})
    assert {settings_of(node)["min.insync.replicas"] for node in cluster.nodes} == {"1"}


def test_kinds_are_parsed_from_a_list() -> None:
    assert kinds_of("kafka, ottla,ottla") == [Kind.KAFKA, Kind.OTTLA, Kind.OTTLA]
    assert kinds_of(",".join(ALL_KAFKA)) == list(ALL_KAFKA)


@pytest.mark.parametrize("text", ["ottla,ottla", "kafka,ottla,redpanda", ""])
def test_invalid_list_of_kinds_is_rejected(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        kinds_of(text)


def test_an_ottla_broker_formats_its_own_directory_with_the_clusters_id(tmp_path: Path) -> None:
    broker = Cluster(tmp_path, [Kind.OTTLA] * 3).broker(2)
    broker.format()
    written = (broker.directory / "meta.properties").read_text().splitlines()
    assert "node.id=2" in written
    assert f"cluster.id={NEW_CLUSTER_ID}" in written


def test_ottla_controller_is_formatted_as_the_only_voter(tmp_path: Path) -> None:
    (controller,) = Cluster(tmp_path, controller_kind=Kind.OTTLA).quorum
    assert controller.command[1:] == ["-m", "ottla", "serve", "--config", str(controller.properties)]
    controller.format(["--standalone"])
    assert (controller.directory / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").exists()
