from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.messages.k35_describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


@pytest.mark.parametrize("version", range(1, 6))
def test_every_version_returns_the_directory_and_each_partitions_size(broker: RunningBroker, client: Client, version: int) -> None:
    create(client, "b", 2)
    create(client, "a")
    produce(client, "b", b"x" * 100, partition=1)
    (directory,) = client.call(DescribeLogDirsRequest(None), version=version).results
    assert (directory.error_code, directory.log_dir) == (0, str(broker.data_dir.resolve()))
    assert [(topic.name, len(topic.partitions)) for topic in directory.topics] == [("a", 1), ("b", 2)]
    empty, full = directory.topics[1].partitions
    segment = broker.data_dir / "b-1" / f"{0:020}.log"
    assert (empty.partition_size, full.partition_size) == (0, segment.stat().st_size)
    assert (full.offset_lag, full.is_future_key) == (0, False)
    assert (directory.total_bytes >= directory.usable_bytes > 0) is (version >= 4)
    assert not directory.is_cordoned


def test_only_requested_and_existing_partitions_are_returned(client: Client) -> None:
    create(client, "t", 3)
    topics = [DescribableLogDirTopic("t", [1, 7]), DescribableLogDirTopic("no", [0])]
    (directory,) = client.call(DescribeLogDirsRequest(topics)).results
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in directory.topics] == [("t", [1])]
