"""The Produce fast path: an ordinary Produce is parsed, checked, appended and answered without a message object, a Context or a task.

Rules:
* A request is ordinary if it has version 9 to 13, acks 1 or all, one topic, one partition, one whole batch and no tagged fields. The append
  must be acknowledged at once: it requires no sync, and with acks=all no acknowledgement of another replica. A transactional batch must
  have a transactional id, and no other batch may; this broker must know at once that the partition belongs to the transaction.
* Any other request is recognized before anything is written, and is handled by `k00_produce`, which also reports its errors. Both paths
  make the same checks and append by the same call. A rejected append has written nothing, and `k00_produce` rejects it again.
* A request that the authorizer denies is not ordinary; `k00_produce` rejects it and logs the denial.
* If client quotas are configured, the request is charged as on the ordinary path (`ottla.broker.api.throttling`).
* tests/property/test_produce_fast_path.py sends the same bytes by both paths, and compares responses, logs and state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.api.authorizer import Authorizer
from ottla.broker.api.context import Peer
from ottla.broker.api.k00_produce import ADDING_SINCE, ATTRIBUTES_AT, BY_ID_SINCE, is_whole
from ottla.broker.cluster.topic_names import CLUSTER_METADATA
from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_verification import TransactionalProducer, TxnVerification
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.storage.batch_check import TooLongForEventLoop
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.records.batch import TRANSACTIONAL
from ottla.protocol.wire import Buffer

if TYPE_CHECKING:
    from ottla.broker.api.throttling import Throttling

_KEY: Final = int(ApiKey.PRODUCE)
_FIRST_VERSION: Final = 9
"""The first Produce version with compact strings and arrays, and tagged fields."""
_LAST_VERSION: Final = 13
_ONE: Final = 2
"""The encoded length of a compact array with one element: the length plus 1."""

_HEAD: Final = struct.Struct(">ihhih")
"""The beginning of a request: frame size, API key, version, correlation id, and the length of the client id that follows."""
_ID_AT: Final = _HEAD.size
_BODY: Final = struct.Struct(">BBhiB")
"""The fields of a Produce request between client id and topic: the header's tagged fields (none), the length of the transactional id, acks,
timeout in ms, and the number of topics. This is the layout without a transactional id; with one, acks and the following fields come after
the id.
"""
_SHORT: Final = 0x7F
"""The largest number that takes one byte when it is encoded as an unsigned varint."""
_PARTITION: Final = struct.Struct(">BiB")
"""The fields of a Produce request after the topic: the number of partitions, the partition's index, and the first byte of the records'
length.
"""
_SIZE_BYTES: Final = 4
_ID_BYTES: Final = 16
_PRODUCER: Final = struct.Struct(">43xqhi")
"""The fields producer id, producer epoch and base sequence of a record batch, which begin at byte 43 of the batch."""
_NO_TAGS: Final = b"\0\0\0"
"""The end of a Produce request: the empty tagged fields of the partition, the topic and the request."""

_ANSWER_HEAD: Final = struct.Struct(">iiBB")
"""The beginning of a Produce response: frame size, correlation id, the header's tagged fields (none), and the number of topics."""
_ANSWER: Final = struct.Struct(">BihqqqBBBBiB")
"""The fields of a Produce response after the topic: number of partitions, index, error code, base offset, log append time, log start
offset, record errors (none), error message (none), the tagged fields of partition and topic (none), throttle time in ms, and the response's
tagged fields (none).
"""
_THROTTLE_TIME: Final = struct.Struct(">iB")
"""The last fields of a Produce response: throttle time in ms, and the response's tagged fields (none)."""
_ANSWER_BYTES: Final = _ANSWER_HEAD.size + _ANSWER.size - _SIZE_BYTES


class ProduceFastPath:
    """The Produce fast path, one object for all connections. `max_bytes` is the size of the largest request (socket.request.max.bytes),
    `spent_ns` is the clock that measures the time a request takes, and `newest` is the last Produce version that is served.
    """

    __slots__ = ("_authorizer", "_max_bytes", "_newest", "_partitions", "_spent_ns", "_verification", "answered")

    def __init__(
        self,
        partitions: Partitions,
        verification: TxnVerification,
        authorizer: Authorizer | None,
        max_bytes: int,
        spent_ns: Callable[[], int] = lambda: 0,
        *,
        newest: int = _LAST_VERSION,
    ) -> None:
        self._partitions = partitions
        self._spent_ns = spent_ns
        self._verification = verification
        self._authorizer = authorizer
        self._max_bytes = max_bytes
        self._newest = newest
        self.answered = [0] * (_LAST_VERSION + 1)
        """The number of Produce requests that the fast path has answered since the start; the index is the request's version."""

    def answer_with_quotas(self, peer: Peer, data: bytes, at: int, throttling: Throttling) -> tuple[list[Buffer], int] | None:
        """Handle the Produce frame at `data[at]` as `answer` does, and return the same. In addition, charge the request to the client's
        quotas and set the throttle time in the response.
        """
        id_size = int.from_bytes(data[at + _ID_AT - 2 : at + _ID_AT], "big", signed=True)
        try:
            client_id = data[at + _ID_AT : at + _ID_AT + max(id_size, 0)].decode()
        except UnicodeDecodeError:
            return None
        begun_ns = self._spent_ns()
        found = self.answer(peer, data, at)
        if found is None:
            return None
        (reply,), stop = found
        wait_ms = throttling.produced(peer, client_id, stop - at - _SIZE_BYTES, self._spent_ns() - begun_ns)
        if not wait_ms:
            return found
        return [b"".join([reply[: -_THROTTLE_TIME.size], _THROTTLE_TIME.pack(wait_ms, 0)])], stop

    def answer(self, peer: Peer, data: bytes, at: int) -> tuple[list[Buffer], int] | None:
        """Handle the Produce frame whose 4-byte size prefix begins at `data[at]`. Return the buffers of the response, and the position
        after the frame; None if the fast path does not handle the frame, so that `k00_produce` must.
        """
        try:
            size, key, version, correlation_id, id_size = _HEAD.unpack_from(data, at)
            stop = at + _SIZE_BYTES + size
            if key != _KEY or not _FIRST_VERSION <= version <= self._newest or stop > len(data) or size > self._max_bytes:
                return None
            pos = at + _HEAD.size + max(id_size, 0)
            no_tags, name_size, acks, _, topics = _BODY.unpack_from(data, pos)
            transactional_id = None
            if name_size:  # a transactional id shifts the fields after it
                transactional_id = data[pos + 2 : pos + 1 + name_size]
                pos += name_size - 1
                acks, _, topics = _BODY.unpack_from(data, pos)[2:]
            if no_tags or name_size > _SHORT or topics != _ONE or acks not in {1, -1}:
                return None
            topic_at = pos + _BODY.size
            topic_end = topic_at + (_ID_BYTES if version >= BY_ID_SINCE else data[topic_at])
            partitions, index, records_size = _PARTITION.unpack_from(data, topic_end)
            pos = topic_end + _PARTITION.size
            if records_size > _SHORT:  # a varint of several bytes, each with seven bits
                records_size += (data[pos] << 7) - 0x80
                pos += 1
                if records_size > 0x3FFF:
                    records_size += (data[pos] << 14) - 0x4000
                    pos += 1
                    if records_size > 0x1FFFFF:  # more bytes than one read of the socket returns, so the frame cannot be complete
                        return None
            is_transactional = data[pos + ATTRIBUTES_AT] & TRANSACTIONAL != 0
        except (struct.error, IndexError):  # an incomplete or invalid frame
            return None
        end = pos + records_size - 1
        if partitions != _ONE or end + len(_NO_TAGS) != stop or not data.startswith(_NO_TAGS, end):
            return None
        records = memoryview(data)[pos:end]
        topic = data[topic_at:topic_end]
        acks_all = acks == -1
        partition = self._partition(topic, version, index, acks_all=acks_all)
        if partition is None or is_transactional == (transactional_id is None):
            return None
        try:  # the append rejects what is not one whole batch
            if self._authorizer is not None:
                _check_access(self._authorizer, peer, partition.topic, transactional_id)
            guard = None if transactional_id is None else self._guard(transactional_id, version, partition, records)
            info = partition.append(records, guard=guard, acks_all=acks_all)
        except (Rejected, TooLongForEventLoop, UnicodeDecodeError):
            return None
        head = _ANSWER_HEAD.pack(_ANSWER_BYTES + topic_end - topic_at, correlation_id, 0, _ONE)
        self.answered[version] += 1
        tail = _ANSWER.pack(_ONE, index, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset, 1, 0, 0, 0, 0, 0)
        return [head + topic + tail], stop

    def _guard(self, transactional_id: bytes, version: int, partition: Partition, records: memoryview) -> VerificationGuard | None:
        """Return the guard with which a transactional batch must be appended: the proof that the coordinator has verified the partition
        (KIP-890), or None if none is needed. Raises Rejected if verification has to wait, or the batch must not be appended.
        """
        if not is_whole(records):
            raise Rejected(ErrorCode.CORRUPT_MESSAGE, "not one whole batch")
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records)
        if producer_id < 0:
            return None
        writer = TransactionalProducer(transactional_id.decode(), producer_id, epoch, adds=version >= ADDING_SINCE)
        return self._verification.verify_without_waiting(writer, partition, sequence)

    def _partition(self, topic: bytes, version: int, index: int, *, acks_all: bool) -> Partition | None:
        """Return the partition if this broker has it, clients may write to its topic, and appends are acknowledged at once; otherwise None.
        `topic` is a compact string or, from version 13 on, an id.
        """
        known = self._partitions
        # Valid topic names are ASCII, so other bytes do not match any topic.
        found = known.by_topic_id(topic) if version >= BY_ID_SINCE else known.by_name(topic[1:].decode("latin-1"))
        if found is None or found.is_internal or found.name == CLUSTER_METADATA:
            return None
        partition = found.partitions.get(index)
        return partition if partition is not None and partition.acknowledges_at_once(acks_all=acks_all) else None


def _check_access(authorizer: Authorizer, peer: Peer, topic: str, transactional_id: bytes | None) -> None:
    """Raise Rejected if the client may not write to the topic, or may not use the transactional id."""
    if not authorizer.allows(peer, Operation.WRITE, Resource.TOPIC, topic):
        raise Rejected(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if transactional_id is not None and not authorizer.allows(peer, Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id.decode()):
        raise Rejected(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
