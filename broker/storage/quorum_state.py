"""`quorum-state`: the KRaft epoch, leader and vote that a node stores across restarts (Kafka's FileQuorumStateStore, ElectionState).

The file is one line of JSON. Versions 0 and 1 can be read; the version written is that of the feature `kraft.version`. The vote is always
written as -1 (none): a sole voter elects itself, and an observer never votes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from ottla.broker.cluster.election import NO_LEADER, Election
from ottla.broker.cluster.topic_ids import ZERO_ID
from ottla.broker.storage.errors import LogDirRefused
from ottla.broker.storage.files import Files
from ottla.protocol.uuids import encode_uuid

FILE_NAME: Final = "quorum-state"
_NOBODY: Final = -1


def read_election(files: Files, directory: Path) -> Election | None:
    """Return the election (epoch and leader) in the directory's quorum-state file, None without the file. Raises `LogDirRefused` if the
    file is invalid, and OSError."""
    path = directory / FILE_NAME
    try:
        found = json.loads(files.read_bytes(path))
        if found["data_version"] not in {0, 1}:
            raise LogDirRefused(f"{path} has the unknown version {found['data_version']}")
        election = Election(found["leaderEpoch"], found["leaderId"])
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise LogDirRefused(f"{path} is not a valid quorum state ({error!r})") from error
    if not all(isinstance(number, int) and number >= NO_LEADER for number in election):
        raise LogDirRefused(f"{path} has an invalid epoch {election.epoch} or leader {election.leader_id}")
    return election


def write_election(files: Files, directory: Path, election: Election, kraft_version: int, voters: Iterable[int]) -> None:
    """Replace the directory's quorum-state file atomically and sync it. `kraft_version`, the feature level, decides the format; `voters`
    (node ids) are stored only at level 0. Raises OSError."""
    fields: dict[str, Any] = {"leaderId": election.leader_id, "leaderEpoch": election.epoch, "votedId": _NOBODY}
    if kraft_version == 0:
        named = [{"voterId": voter} for voter in voters]
        fields = {"clusterId": "", **fields, "appliedOffset": 0, "currentVoters": named, "data_version": 0}
    else:
        fields |= {"votedDirectoryId": encode_uuid(ZERO_ID), "data_version": 1}
    files.write_atomic(directory / FILE_NAME, json.dumps(fields, separators=(",", ":")).encode())
