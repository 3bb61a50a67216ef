"""Reading from leaders: failures by a moved leader or a broken connection are retried, final ones are reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.spark_jobs.wire.address import Address
from ottla.spark_jobs.wire.cluster import ATTEMPTS, EARLIEST, LATEST, Cluster, WireError, error_name
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create, produce


class Naps(list[float]):
    """Records the seconds of each pause instead of sleeping."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def cluster(broker: RunningBroker, naps: Naps) -> Cluster:
    return Cluster(Address((("127.0.0.1", broker.port),)), sleep=naps)


def served(broker: RunningBroker, *values: bytes) -> None:
    with broker.client() as client:
        create(client, "t")
        for value in values:
            produce(client, "t", value)


def test_partitions_offsets_cleanup_policies_and_sizes_are_returned(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, cluster(broker, Naps()) as one:
        served(broker, b"a", b"b")
        assert one.find().partitions == [("t", 0)]
        assert one.offsets([("t", 0)], EARLIEST) == ({("t", 0): 0}, {})
        assert one.offsets([("t", 0)], LATEST) == ({("t", 0): 2}, {})
        assert one.cleanup_policies(["t"]) == {"t": "delete"}
        assert one.sizes()["t", 0] == (tmp_path / "data" / "t-0" / f"{0:020d}.log").stat().st_size


@pytest.mark.parametrize(
    "fault",
    [
        "error:api=Fetch,code=NOT_LEADER_OR_FOLLOWER,times=2",
        "error:api=Fetch,code=LEADER_NOT_AVAILABLE,times=2",
        "drop-ack:api=Fetch,times=2",
    ],
)
def test_moved_or_disconnected_leader_is_retried(fault: str, tmp_path: Path) -> None:
    naps = Naps()
    with RunningBroker(tmp_path / "data", faults=[fault]) as broker, cluster(broker, naps) as one:
        served(broker, b"value")
        answer = one.fetch(("t", 0), 0, 1000)
        broker.faults.assert_consumed()
    assert b"value" in bytes(answer.records or b"")
    assert naps == [0.1, 0.2]


def test_offsets_are_requested_again_while_a_leader_moves(tmp_path: Path) -> None:
    fault = "error:api=ListOffsets,code=NOT_LEADER_OR_FOLLOWER,times=1"
    with RunningBroker(tmp_path / "data", faults=[fault]) as broker, cluster(broker, Naps()) as one:
        served(broker, b"value")
        one.find()
        assert one.offsets([("t", 0)], LATEST) == ({("t", 0): 1}, {})


def test_partition_without_a_leader_fails_after_the_last_attempt(tmp_path: Path) -> None:
    naps = Naps()
    with RunningBroker(tmp_path / "data") as broker, cluster(broker, naps) as one:
        served(broker)
        with pytest.raises(WireError, match=r"t-7: cannot be fetched at offset 5"):
            one.fetch(("t", 7), 5, 1000)
    assert len(naps) == ATTEMPTS
    assert max(naps) == 1.0


def test_non_retriable_error_is_returned_at_once(tmp_path: Path) -> None:
    naps = Naps()
    with RunningBroker(tmp_path / "data") as broker, cluster(broker, naps) as one:
        served(broker, b"value")
        assert one.fetch(("t", 0), 99, 1000).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert naps == []


def test_requesting_a_topic_does_not_create_it(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", {"auto.create.topics.enable": "true"}) as broker, cluster(broker, Naps()) as one:
        assert one.find(["new"]).refused == {"new": "UNKNOWN_TOPIC_OR_PARTITION"}
        assert broker.topics.names() == []


def test_unknown_error_code_is_named_by_its_number() -> None:
    assert (error_name(1), error_name(9999)) == ("OFFSET_OUT_OF_RANGE", "error 9999")
