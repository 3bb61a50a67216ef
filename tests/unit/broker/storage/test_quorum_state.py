from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.cluster.election import Election
from ottla.broker.sim.memory_files import MemoryFiles
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import FILES
from ottla.broker.storage.quorum_state import read_election, write_election


def test_no_file_is_no_election(tmp_path: Path) -> None:
    assert read_election(FILES, tmp_path) is None


def test_both_versions_are_kafkas_text_and_readable(tmp_path: Path) -> None:
    write_election(FILES, tmp_path, Election(4, 2), 0, [1, 2])
    assert (tmp_path / "quorum-state").read_text() == (
        '{"clusterId":"","leaderId":2,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert read_election(FILES, tmp_path) == Election(4, 2)
    write_election(FILES, tmp_path, Election(5, -1), 1, [1, 2])
    assert (tmp_path / "quorum-state").read_text() == (
        '{"leaderId":-1,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    )
    assert read_election(FILES, tmp_path) == Election(5, -1)
    assert [path.name for path in tmp_path.iterdir()] == ["quorum-state"]


def test_an_election_survives_a_power_loss() -> None:
    files, directory = MemoryFiles(), Path("/log")
    files.make_dir(directory)
    write_election(files, directory, Election(4, 2), 1, [])
    files.power_loss()
    assert read_election(files, directory) == Election(4, 2)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        '{"leaderId":1,"leaderEpoch":1}',
        '{"leaderId":1,"leaderEpoch":1,"data_version":2}',
        '{"leaderEpoch":1,"data_version":1}',
        '{"leaderId":"1","leaderEpoch":1,"data_version":1}',
        '{"leaderId":1,"leaderEpoch":-2,"data_version":1}',
    ],
)
def test_an_invalid_file_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)
    with pytest.raises(LogDirRefused, match="quorum-state"):
        read_election(FILES, tmp_path)
