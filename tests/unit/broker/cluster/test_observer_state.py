"""The observer's requests and its reactions to each response; the whole observer: tests/unit/broker/runtime/nodes/test_observer.py."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from ottla.broker.cluster.election import Election
from ottla.broker.cluster.observer_state import (
    AppendRecords,
    BeginDownload,
    DropDownload,
    LogWarning,
    Observer,
    ObserverState,
    QuorumFault,
    QuorumNode,
    SaveElection,
    SendRequest,
    TruncateTo,
    WaitUntil,
    WritePart,
)
from ottla.broker.cluster.snapshots import SnapshotId
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k59_fetch_snapshot as k59
from ottla.protocol.messages.k01_fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.protocol.messages.k01_fetch import SnapshotId as NamedSnapshot
from ottla.protocol.messages.node_endpoint import NodeEndpoint

ME = Observer(7, b"d" * 16, "cluster")
SEED = QuorumNode(-1, "seed", 1)
ONE, TWO = QuorumNode(1, "one", 9093), QuorumNode(2, "two", 9093)


@dataclass
class Log:
    """A stand-in for the metadata log: `ends` are its epochs with their end offsets."""

    ends: list[tuple[int, int]] = field(default_factory=lambda: [(3, 10), (5, 20)])
    high_watermark: int = 0
    snapshots: set[SnapshotId] = field(default_factory=set)

    @property
    def end_offset(self) -> int:
        return self.ends[-1][1] if self.ends else 0

    @property
    def last_epoch(self) -> int:
        return self.ends[-1][0] if self.ends else 0

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        if epoch > self.last_epoch:
            return self.last_epoch, self.end_offset
        return next((known, end) for known, end in reversed(self.ends) if known <= epoch or known == self.ends[0][0])

    def has_snapshot(self, snapshot: SnapshotId) -> bool:
        return snapshot in self.snapshots


def observer(*, leader: int = -1, epoch: int = 5, log: Log | None = None, bootstrap: tuple[QuorumNode, ...] = (SEED,)) -> ObserverState:
    return ObserverState(ME, bootstrap, log or Log(), Election(epoch, leader), random=random.Random(1))


def follower(log: Log | None = None) -> ObserverState:
    """Return an observer in the state that follows node 1 in epoch 5, with node 2 as another bootstrap server."""
    return observer(leader=1, log=log, bootstrap=(ONE, TWO))


def answer(error: int = 0, *, leader: int = 1, epoch: int = 5, endpoints: tuple[QuorumNode, ...] = (ONE,), **more: object) -> FetchResponse:
    data = PartitionData(error_code=error, **{"high_watermark": 15, **more})  # type: ignore[arg-type] # whatever a test says
    data.current_leader = LeaderIdAndEpoch(leader, epoch)
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[data])], node_endpoints=[NodeEndpoint(*peer) for peer in endpoints])


def part(
    error: int = 0, *, position: int = 0, size: int = 6, data: bytes = b"abc", end: int = 30, epoch: int = 5
) -> k59.FetchSnapshotResponse:
    response = k59.PartitionSnapshotPart(
        error_code=error,
        snapshot_id=k59.SnapshotId(end, 4),
        current_leader=k59.LeaderIdAndEpoch(1, epoch),
        size=size,
        position=position,
        unaligned_records=data,
    )
    return k59.FetchSnapshotResponse(topics=[k59.TopicSnapshotPart("__cluster_metadata", [response])])


def next_request(state: ObserverState, now_ms: int = 0) -> SendRequest:
    step = state.next_step(now_ms)
    assert isinstance(step, SendRequest)
    return step


def test_the_first_fetch_goes_to_a_bootstrap_server() -> None:
    step = next_request(observer(leader=1, epoch=6))
    assert step.peer == SEED
    assert isinstance(step.request, FetchRequest)
    (wanted,) = step.request.topics[0].partitions
    assert step.request.topics[0].topic_id == bytes(15) + b"\x01"
    assert (wanted.current_leader_epoch, wanted.fetch_offset, wanted.last_fetched_epoch, wanted.high_watermark) == (6, 20, 5, -1)
    assert (wanted.replica_directory_id, step.request.replica_state.replica_id, step.request.cluster_id) == (b"d" * 16, 7, "cluster")
    assert (step.request.max_wait_ms, step.request.min_bytes, step.request.session_epoch) == (500, 0, -1)


def test_a_log_with_a_newer_epoch_than_quorum_state_counts() -> None:
    state = observer(leader=1, epoch=4, bootstrap=(ONE,))
    assert (state.election, state.leader) == (Election(5, -1), None)


def test_a_new_observer_learns_the_leader_from_the_first_error() -> None:
    state = observer(epoch=0, log=Log([]))
    assert state.handle_response(SEED, answer(ErrorCode.FENCED_LEADER_EPOCH), 0) == [SaveElection(Election(5, 1))]
    assert next_request(state).peer == ONE


def test_a_response_of_the_current_epoch_sets_the_leader_and_its_records_count() -> None:
    state = observer()
    actions = state.handle_response(SEED, answer(records=b"r"), 0)
    assert actions == [SaveElection(Election(5, 1)), AppendRecords(b"r", 5, 15)]


def test_a_response_of_a_newer_epoch_only_sets_the_leader() -> None:
    state = follower()
    assert state.handle_response(ONE, answer(epoch=6, leader=2, endpoints=(TWO,), records=b"r"), 0) == [SaveElection(Election(6, 2))]
    assert state.handle_response(TWO, answer(ErrorCode.FENCED_LEADER_EPOCH, epoch=7, leader=-1), 0) == [SaveElection(Election(7, -1))]
    assert (state.leader, state.epoch) == (None, 7)


@pytest.mark.parametrize(
    "response",
    [
        answer(epoch=4, records=b"r"),
        answer(ErrorCode.UNKNOWN_LEADER_EPOCH, epoch=4),
        answer(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        answer(ErrorCode.BROKER_NOT_AVAILABLE),
        FetchResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE),
    ],
    ids=["older epoch", "behind", "knows nothing newer", "not ready", "not ready at all"],
)
def test_a_response_without_news_is_followed_by_a_20_ms_pause(response: FetchResponse) -> None:
    state = follower()
    assert state.handle_response(ONE, response, 100) == []
    assert next_request(state, 119).peer == TWO
    assert next_request(state, 120).peer == ONE


@pytest.mark.parametrize(
    "response",
    [answer(ErrorCode.UNKNOWN_SERVER_ERROR), FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID), FetchResponse(), answer(999)],
    ids=["of the partition", "of the request", "without a partition", "unknown"],
)
def test_a_retriable_error_is_logged_and_retried(response: FetchResponse) -> None:
    state = follower()
    (action,) = state.handle_response(ONE, response, 0)
    assert isinstance(action, LogWarning)
    assert next_request(state, 20).peer == ONE


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        answer(ErrorCode.INVALID_REQUEST),
        answer(leader=2, endpoints=(TWO,)),
        answer(leader=7, epoch=6),
        answer(diverging_epoch=EpochEndOffset(3, 8)),
        answer(diverging_epoch=EpochEndOffset(2, 14)),
    ],
    ids=["not allowed", "invalid", "two leaders", "itself", "below the high watermark", "its own end is below the high watermark"],
)
def test_a_fatal_error_stops_the_observer(response: FetchResponse) -> None:
    state = follower(Log(high_watermark=12))
    with pytest.raises(QuorumFault):
        state.handle_response(ONE, response, 0)


@pytest.mark.parametrize(
    ("epoch", "end", "offset"),
    [(5, 17, 17), (5, 25, 20), (4, 12, 10), (3, 8, 8), (9, 18, 20), (0, 4, 4)],
    ids=["same epoch", "longer", "an epoch that is not here", "an older one", "a newer one", "the first"],
)
def test_a_diverging_log_is_truncated(epoch: int, end: int, offset: int) -> None:
    assert follower().handle_response(ONE, answer(diverging_epoch=EpochEndOffset(epoch, end)), 0) == [TruncateTo(offset)]


def test_the_high_watermark_is_limited_to_the_log_and_never_decreases() -> None:
    state = follower()
    assert state.appended(-1) is None
    assert state.appended(12) == 12
    assert state.appended(11) is None
    assert state.appended(40) == 20
    assert state.high_watermark == 20
    assert state.committed is None
    state.handle_response(ONE, answer(high_watermark=40), 0)
    assert state.committed == 40


def test_a_snapshot_is_fetched_in_consecutive_parts() -> None:
    state = follower()
    wanted = answer(snapshot_id=NamedSnapshot(30, 4))
    assert state.handle_response(ONE, wanted, 0) == [BeginDownload(SnapshotId(30, 4))]
    assert state.handle_response(ONE, wanted, 0) == []
    assert state.handle_response(ONE, part(), 0) == [WritePart(b"abc", is_last=False)]
    request = next_request(state).request
    assert isinstance(request, k59.FetchSnapshotRequest)
    (wants,) = request.topics[0].partitions
    assert (wants.position, wants.snapshot_id, wants.current_leader_epoch) == (3, k59.SnapshotId(30, 4), 5)
    assert state.handle_response(ONE, part(position=3), 0) == [WritePart(b"abc", is_last=True)]
    assert isinstance(next_request(state).request, FetchRequest)


@pytest.mark.parametrize(
    ("response", "actions"),
    [
        (part(ErrorCode.SNAPSHOT_NOT_FOUND), [DropDownload()]),
        (part(end=-1), [DropDownload()]),
        (part(epoch=6), [SaveElection(Election(6, 1)), DropDownload()]),
        (part(data=b""), [WritePart(b"", is_last=False)]),
    ],
    ids=["gone", "without an id", "another epoch", "empty"],
)
def test_a_failed_snapshot_fetch_is_dropped_or_retried(response: k59.FetchSnapshotResponse, actions: list[object]) -> None:
    state = follower()
    state.handle_response(ONE, answer(snapshot_id=NamedSnapshot(30, 4)), 0)
    assert state.handle_response(ONE, response, 0) == actions


@pytest.mark.parametrize("response", [part(position=1), part(end=31), part(size=2)], ids=["position", "id", "more than all"])
def test_a_wrong_snapshot_part_stops_the_observer(response: k59.FetchSnapshotResponse) -> None:
    state = follower()
    state.handle_response(ONE, answer(snapshot_id=NamedSnapshot(30, 4)), 0)
    with pytest.raises(QuorumFault):
        state.handle_response(ONE, response, 0)


@pytest.mark.parametrize("response", [NamedSnapshot(-1, 4), NamedSnapshot(30, -1), NamedSnapshot(9, 3)], ids=["end", "epoch", "known"])
def test_an_invalid_or_present_snapshot_is_not_fetched(response: NamedSnapshot) -> None:
    state = follower(Log(snapshots={SnapshotId(9, 3)}))
    (action,) = state.handle_response(ONE, answer(snapshot_id=response), 0)
    assert isinstance(action, LogWarning)
    assert isinstance(next_request(state, 20).request, FetchRequest)


def test_a_silent_leader_is_retried_with_backoff_and_others_are_asked() -> None:
    state = follower()
    state.failed(ONE, 0)
    assert (next_request(state, 19).peer, next_request(state, 20).peer) == (TWO, ONE)
    for _ in range(9):
        state.failed(ONE, 1000)
    state.failed(TWO, 1100)
    assert state.next_step(1101) == WaitUntil(1120)
    assert (next_request(state, 1499).peer, next_request(state, 1500).peer) == (TWO, ONE)
    state.handle_response(ONE, answer(), 1500)
    state.failed(ONE, 2000)
    assert next_request(state, 2020).peer == ONE


def test_observers_start_with_different_bootstrap_servers() -> None:
    def first(seed: int) -> QuorumNode:
        return next_request(ObserverState(ME, (ONE, TWO, SEED), Log(), Election(5, -1), random=random.Random(seed))).peer

    assert {first(seed) for seed in range(30)} == {ONE, TWO, SEED}


def test_the_voters_record_provides_a_missing_leader_endpoint() -> None:
    state = observer()
    assert state.handle_response(SEED, answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, endpoints=()), 0) == []
    state.update_voters({1: ONE})
    assert state.handle_response(SEED, answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, endpoints=()), 0) == [SaveElection(Election(5, 1))]


def test_a_leader_without_endpoint_is_used_when_the_voters_are_known() -> None:
    state = observer(leader=1)
    assert state.leader is None
    state.update_voters({2: TWO})
    assert state.leader is None
    state.update_voters({1: ONE, 2: TWO})
    assert next_request(state).peer == ONE
    state.update_voters({2: TWO})
    assert state.leader == ONE
