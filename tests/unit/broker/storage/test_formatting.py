from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.metadata_records import FeatureLevelRecord
from ottla.broker.cluster.release_levels import bootstrap_levels
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import FILES
from ottla.broker.storage.formatting import bootstrap_records, format_directory
from ottla.broker.storage.log_dir import LogDir
from tests.support.logs import NOW_MS

LEVELS = bootstrap_levels({}, "4.0", dynamic_quorum=True)


def formatted(path: Path, cluster_id: str = "cluster", node_id: int = 2, *, ignore_formatted: bool = False) -> bool:
    return format_directory(path, cluster_id, node_id, LEVELS, NOW_MS, ignore_formatted=ignore_formatted)


def test_a_broker_starts_on_a_formatted_directory_with_its_cluster_id(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    assert formatted(path)
    assert [file.name for file in path.iterdir()] == ["meta.properties"]
    log_dir = LogDir.open(path, BrokerSettings(node_id=2, process_roles=("broker",)), NOW_MS)
    assert (log_dir.cluster_id, log_dir.meta.node_id, log_dir.logs, log_dir.findings) == ("cluster", 2, {}, [])
    assert log_dir.meta.directory_id != bytes(16)
    log_dir.close()


@pytest.mark.parametrize("written_by", ["4.3", "4.4"])
def test_a_controllers_directory_has_the_first_records_of_its_log(tmp_path: Path, written_by: str) -> None:
    """Until 4.3 `kafka-storage format` wrote them to a file of their own."""
    format_directory(tmp_path, "cluster", 2, LEVELS, NOW_MS, is_controller=True)
    if written_by == "4.3":
        (tmp_path / "__cluster_metadata-0" / "00000000000000000000-0000000000.checkpoint").rename(tmp_path / "bootstrap.checkpoint")
    names = [record.name for record in bootstrap_records(FILES, tmp_path) if isinstance(record, FeatureLevelRecord)]
    assert names == ["metadata.version", "group.version", "transaction.version"]


def test_a_formatted_directory_is_refused_or_not_changed(tmp_path: Path) -> None:
    formatted(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(LogDirRefused, match=r"is already formatted\. Use --ignore-formatted"):
        formatted(tmp_path)
    assert not formatted(tmp_path, ignore_formatted=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "words"),
    [
        ("other", 2, r"Invalid cluster\.id in: .*meta\.properties\. Expected other, but read cluster"),
        ("cluster", 3, "Stored node id 2 doesn't"),
    ],
)
def test_a_directory_of_another_cluster_or_node_is_always_refused(tmp_path: Path, cluster_id: str, node_id: int, words: str) -> None:
    formatted(tmp_path)
    with pytest.raises(LogDirRefused, match=words):
        formatted(tmp_path, cluster_id, node_id, ignore_formatted=True)


def test_an_invalid_directory_path_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogDirRefused, match="file"):
        formatted(tmp_path / "file")
    (tmp_path / "meta.properties").write_text("version=7\n")
    with pytest.raises(LogDirRefused, match=r"meta\.properties: version 7"):
        formatted(tmp_path, ignore_formatted=True)
