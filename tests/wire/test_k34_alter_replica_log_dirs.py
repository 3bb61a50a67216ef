from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k34_alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create


@pytest.fixture
def client(client: Client) -> Client:
    """A client of a broker with a topic `t`."""
    create(client, "t")
    return client


@pytest.mark.parametrize("version", [1, 2])
def test_a_replica_stays_in_the_only_directory(broker: RunningBroker, client: Client, version: int) -> None:
    def laid(path: str) -> list[int]:
        topics = [AlterReplicaLogDirTopic("t", [0, 1])]
        answer = client.call(AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)]), version)
        return [each.error_code for each in answer.results[0].partitions]

    own = str(broker.broker.log_dir.path.resolve())
    assert laid(own) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert laid(f"{own}/") == [ErrorCode.LOG_DIR_NOT_FOUND] * 2
    assert laid("/elsewhere") == [ErrorCode.LOG_DIR_NOT_FOUND] * 2
