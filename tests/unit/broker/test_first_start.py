from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.snapshots import read_snapshot
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.core.settings_load import load
from ottla.broker.first_start import format_where_new
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.formatting import METADATA_DIRECTORY
from ottla.broker.storage.meta_properties import decode_meta

CLUSTER, OTHER = "T3R0bGFDb21wb3NlMDAwMQ", "MkU3OEVBNTcwNTJENDM2Qg"
QUORUM_OF_ONE = f"{METADATA_DIRECTORY}/00000000000000000000-0000000000.checkpoint"


def settings_of(directory: Path, **given: str) -> BrokerSettings:
    at = {
        "node.id": "7",
        "log.dir": str(directory),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    return load({**at, **{name.replace("_", "."): value for name, value in given.items()}}, {}, None).settings


def controller(directory: Path, **given: str) -> BrokerSettings:
    return settings_of(directory, process_roles="controller", listeners="CONTROLLER://localhost:9093", **given)


def test_a_new_directory_is_formatted_once_with_the_given_cluster_id(tmp_path: Path) -> None:
    broker = settings_of(tmp_path / "data", process_roles="broker", cluster_id=CLUSTER)
    assert format_where_new(broker, 1)
    meta = decode_meta((tmp_path / "data" / "meta.properties").read_bytes())
    assert (meta.cluster_id, meta.node_id) == (CLUSTER, 7)
    assert not (tmp_path / "data" / QUORUM_OF_ONE).exists()
    assert not format_where_new(broker, 1)


def test_a_controller_without_configured_voters_is_the_only_voter(tmp_path: Path) -> None:
    assert format_where_new(controller(tmp_path / "dynamic", cluster_id=CLUSTER), 1)
    assert (tmp_path / "dynamic" / QUORUM_OF_ONE).exists()
    named = controller(
        tmp_path / "static",
        cluster_id=CLUSTER,
        **{"controller.quorum.voters": "7@localhost:9093", "controller.quorum.bootstrap.servers": ""},
    )
    assert format_where_new(named, 1)
    assert read_snapshot((tmp_path / "static" / QUORUM_OF_ONE).read_bytes()).voters is None


def test_the_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    format_where_new(controller(tmp_path, cluster_id=OTHER), 1)
    with pytest.raises(LogDirRefused, match=rf"Expected {CLUSTER}, but read {OTHER}"):
        format_where_new(controller(tmp_path, cluster_id=CLUSTER), 1)


def test_a_node_without_a_role_is_not_formatted(tmp_path: Path) -> None:
    assert not format_where_new(controller(tmp_path / "a"), 1)
    assert not format_where_new(load({"log.dir": str(tmp_path / "b"), "cluster.id": CLUSTER}, {}, None).settings, 1)
    assert list(tmp_path.iterdir()) == []
