"""The clients of `tests.support.soak`: short-lived clients of four kinds. Each uses a new name or producer id, as clients that come and go
during a week do.

A request is sent again, to whichever broker is now responsible, until it succeeds: brokers restart meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.broker.testing.cluster import InProcessCluster
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k00_produce as k00
from ottla.protocol.messages import k08_offset_commit as k08
from ottla.protocol.messages import k10_find_coordinator as k10
from ottla.protocol.messages import k11_join_group as k11
from ottla.protocol.messages import k13_leave_group as k13
from ottla.protocol.messages import k14_sync_group as k14
from ottla.protocol.messages import k20_delete_topics as k20
from ottla.protocol.messages import k22_init_producer_id as k22
from ottla.protocol.messages import k26_end_txn as k26
from ottla.protocol.messages import k28_txn_offset_commit as k28
from ottla.protocol.messages import k68_consumer_group_heartbeat as k68
from ottla.protocol.records.record import SimpleRecord, build_batch
from ottla.protocol.schema import Message
from tests.support.classic_groups import subscription

GROUP, TRANSACTIONAL_ID = 0, 1
RETRY_S: Final = 0.02
TIMEOUT_S: Final = 60.0
SESSION_MS: Final = 30_000
PRODUCE_VERSION, COMMIT_VERSION, TXN_COMMIT_VERSION = 12, 9, 5
"""The newest versions of Produce, OffsetCommit and TxnOffsetCommit that name topics; later ones have topic ids. With these versions, the
first request of a transaction to a partition or group adds it to the transaction (KIP-890)."""
RECORDS, RECORD_BYTES = 20, 200


class Unanswered(AssertionError):
    """A request got no successful response in time."""


class SoakClients:
    """All clients of one cluster. Each connects for its own requests, and closes its connections at the end."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster

    # --- four kinds ------------------------------------------------------------------------------------------------------------------

    def idempotent_producer(self, topic: str, partitions: int, keys: Sequence[bytes | None]) -> None:
        """Write a batch to each partition under a new producer id."""
        made = self._answered(self._anybody, k22.InitProducerIdRequest(None, 60_000), _code)
        for index in range(partitions):
            self._write(topic, index, keys, (made.producer_id, made.producer_epoch))

    def transaction(self, name: str, topic: str, *, ends: bool) -> None:
        """Write a record and a group's offset in a transaction. With `ends`, commit the transaction; otherwise leave it open, so that it
        times out."""

        def coordinator() -> int:
            return self._coordinator(name, TRANSACTIONAL_ID)

        made = self._answered(coordinator, k22.InitProducerIdRequest(name, SESSION_MS), _code)
        producer_id, epoch = made.producer_id, made.producer_epoch
        self._write(topic, 0, [None], (producer_id, epoch), transactional_id=name)
        offsets = [k28.TxnOffsetCommitRequestTopic(topic, partitions=[k28.TxnOffsetCommitRequestPartition(0, 1)])]
        request = k28.TxnOffsetCommitRequest(name, f"group of {name}", producer_id, epoch, topics=offsets)
        self._answered(
            lambda: self._coordinator(f"group of {name}", GROUP),
            request,
            lambda answer: answer.topics[0].partitions[0].error_code,
            TXN_COMMIT_VERSION,
        )
        if ends:
            self._answered(coordinator, k26.EndTxnRequest(name, producer_id, epoch, committed=True), _code)

    def classic_member(self, group: str, topic: str, *, leaves: bool) -> None:
        """Join a group as its only member, commit, and leave; or fall silent, so that the session times out."""

        def coordinator() -> int:
            return self._coordinator(group, GROUP)

        protocols = [k11.JoinGroupRequestProtocol("range", subscription(topic))]
        join = k11.JoinGroupRequest(group, SESSION_MS, SESSION_MS, protocol_type="consumer", protocols=protocols)
        named = self._answered(
            coordinator, join, lambda answer: 0 if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else answer.error_code
        )
        join.member_id = named.member_id
        joined = self._answered(coordinator, join, _code)
        sync = k14.SyncGroupRequest(group, joined.generation_id, joined.member_id, protocol_type="consumer", protocol_name="range")
        self._answered(coordinator, sync, _code)
        self._commit(group, topic, joined.member_id, joined.generation_id)
        if leaves:
            self._answered(coordinator, k13.LeaveGroupRequest(group, members=[k13.MemberIdentity(joined.member_id)]), _code)

    def consumer_member(self, group: str, topic: str, *, leaves: bool) -> None:
        """Join as the only member of a consumer group (KIP-848), commit, and leave; or fall silent, so that the session times out."""

        def beat(epoch: int) -> Any:
            request = k68.ConsumerGroupHeartbeatRequest(group, f"member of {group}", epoch, subscribed_topic_names=[topic])
            request.rebalance_timeout_ms, request.topic_partitions = SESSION_MS, []
            return self._answered(lambda: self._coordinator(group, GROUP), request, _code)

        joined = beat(0)
        self._commit(group, topic, joined.member_id, joined.member_epoch)
        if leaves:
            beat(-1)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        request = k20.DeleteTopicsRequest(topics=[k20.DeleteTopicState(name)], timeout_ms=SESSION_MS)
        self._answered(self._anybody, request, lambda answer: answer.responses[0].error_code)

    # --- requests --------------------------------------------------------------------------------------------------------------------

    def _write(
        self, topic: str, index: int, keys: Sequence[bytes | None], producer: tuple[int, int], transactional_id: str | None = None
    ) -> None:
        now_ms = self._cluster.clock.now_ms()
        records = [SimpleRecord(keys[number % len(keys)], b"v" * RECORD_BYTES, now_ms) for number in range(RECORDS)]
        batch = build_batch(
            records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=0, transactional=transactional_id is not None
        )
        request = k00.ProduceRequest(
            transactional_id, -1, SESSION_MS, [k00.TopicProduceData(topic, partition_data=[k00.PartitionProduceData(index, batch)])]
        )
        self._answered(
            lambda: self._cluster.leader_of(topic, index),
            request,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
            PRODUCE_VERSION,
        )

    def _commit(self, group: str, topic: str, member: str, epoch: int) -> None:
        topics = [k08.OffsetCommitRequestTopic(topic, partitions=[k08.OffsetCommitRequestPartition(0, 1)])]
        request = k08.OffsetCommitRequest(group, epoch, member, topics=topics)
        self._answered(
            lambda: self._coordinator(group, GROUP), request, lambda answer: answer.topics[0].partitions[0].error_code, COMMIT_VERSION
        )

    def _anybody(self) -> int:
        return self._cluster.up[0]

    def _coordinator(self, key: str, kind: int) -> int:
        request = k10.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        found = self._answered(self._anybody, request, lambda answer: answer.coordinators[0].error_code)
        node: int = found.coordinators[0].node_id
        return node

    def _answered(self, whom: Callable[[], int], request: Message, code_of: Callable[[Any], int], version: int | None = None) -> Any:
        """Send the request to the responsible broker until it succeeds; return the response. Raises Unanswered."""
        end_s, last = time.monotonic() + TIMEOUT_S, ""
        while time.monotonic() < end_s:
            try:
                node = whom()
                with Client("127.0.0.1", self._cluster.brokers[node].port) as client:
                    answer = client.call(request, version)
                if (code := code_of(answer)) == ErrorCode.NONE:
                    return answer
                last = ErrorCode.of(code).name
            except (OSError, KeyError, IndexError) as error:  # the broker restarts, or there is no leader
                last = repr(error)
            time.sleep(RETRY_S)
        raise Unanswered(f"{type(request).__name__} did not succeed within {TIMEOUT_S:.0f} s: {last}")


def _code(answer: Any) -> int:
    code: int = answer.error_code
    return code
