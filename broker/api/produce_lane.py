"""The lane: the ordinary Produce is read in one go, checked, appended and answered, without a message, a Context or a task.

Rules:
* ordinary is: version 9 to 13, acks 1 or all, one topic, one partition, one whole batch, no tagged fields, and a partition that this
  broker leads alone and that nothing is synced for before it is acknowledged; a batch of a transaction comes with a transactional id, no
  other does, and this broker knows at once that the partition belongs to the transaction;
* whatever else comes is told from the ordinary before anything is written, and takes the way of all requests (`k00_produce`), which says
  what is wrong with it. That way is the rule, this one a shorter one to the same place: both ask the same checks, and append by the same
  call. What the append refuses has written nothing, and is refused once more there;
* where there is an authorizer, there is no lane;
* tests/property/test_produce_lane.py sends the same bytes both ways, and compares answers, logs and state.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.broker.api.k00_produce import ADDING_SINCE, is_transactional, is_whole
from ottla.broker.api.reply import Reply
from ottla.broker.cluster.topic_names import CLUSTER_METADATA, is_internal
from ottla.broker.core.rejected import Rejected
from ottla.broker.runtime.coordination.txn_verification import TxnVerification, Writer
from ottla.broker.runtime.replicas.partition import Partition
from ottla.broker.runtime.replicas.partitions import Partitions
from ottla.broker.storage.batch_check import TooMuchAtOnce
from ottla.broker.storage.txn_guard import VerificationGuard
from ottla.protocol.api_keys import ApiKey

_KEY: Final = int(ApiKey.PRODUCE)
_FIRST_VERSION: Final = 9
"""The first with compact fields."""
_BY_ID_SINCE: Final = 13
_LAST_VERSION: Final = 13
_ONE: Final = 2
"""The length of a compact array of one element, and what is added to that of a string: one."""

_HEAD: Final = struct.Struct(">ihhih")
"""Size, key, version, correlation id, length of the client id, which follows."""
_BODY: Final = struct.Struct(">BBhiB")
"""No tags of the header, the length of the transactional id, which follows, acks, timeout, topics."""
_SHORT: Final = 0x7F
"""The most that a varint of one byte can be."""
_PARTITION: Final = struct.Struct(">BiB")
"""Partitions, index, and the first byte of the length of the records."""
_SIZE_BYTES: Final = 4
_ID_BYTES: Final = 16
_PRODUCER: Final = struct.Struct(">43xqhi")
"""Of a batch: producer id, epoch, base sequence."""
_NO_TAGS: Final = b"\0\0\0"
"""Of the partition, the topic, and the request."""

_ANSWER_HEAD: Final = struct.Struct(">iiBB")
"""Size, correlation id, no tags, topics."""
_ANSWER: Final = struct.Struct(">BihqqqBBBBiB")
"""Partitions, index, error, base offset, append time, log start, no record errors, no message, no tags of either, throttle, no tags."""
_ANSWER_BYTES: Final = _ANSWER_HEAD.size + _ANSWER.size - _SIZE_BYTES


class ProduceLane:
    """One for all connections; `max_bytes` is the most that a request may have (socket.request.max.bytes)."""

    __slots__ = ("_max_bytes", "_partitions", "_verification", "answered")

    def __init__(self, partitions: Partitions, verification: TxnVerification, max_bytes: int) -> None:
        self._partitions = partitions
        self._verification = verification
        self._max_bytes = max_bytes
        self.answered = [0] * (_LAST_VERSION + 1)
        """Requests by version, since the start."""

    def answer(self, data: bytes, at: int) -> tuple[Reply, int] | None:
        """The answer to the frame whose size is at `at`, and where the next one begins; None for a frame that is not the lane's."""
        try:
            size, key, version, correlation_id, id_size = _HEAD.unpack_from(data, at)
            stop = at + _SIZE_BYTES + size
            if key != _KEY or not _FIRST_VERSION <= version <= _LAST_VERSION or stop > len(data) or size > self._max_bytes:
                return None
            pos = at + _HEAD.size + max(id_size, 0)
            no_tags, name_size, acks, _, topics = _BODY.unpack_from(data, pos)
            transactional_id = None
            if name_size:  # what is behind the name comes so much later
                transactional_id = data[pos + 2 : pos + 1 + name_size]
                pos += name_size - 1
                acks, _, topics = _BODY.unpack_from(data, pos)[2:]
            if no_tags or name_size > _SHORT or topics != _ONE or acks not in {1, -1}:
                return None
            topic_at = pos + _BODY.size
            topic_end = topic_at + (_ID_BYTES if version >= _BY_ID_SINCE else data[topic_at])
            partitions, index, records_size = _PARTITION.unpack_from(data, topic_end)
            pos = topic_end + _PARTITION.size
            if records_size > _SHORT:  # a varint of several bytes, each with seven bits
                records_size += (data[pos] << 7) - 0x80
                pos += 1
                if records_size > 0x3FFF:
                    records_size += (data[pos] << 14) - 0x4000
                    pos += 1
                    if records_size > 0x1FFFFF:  # more than a read brings
                        return None
        except (struct.error, IndexError):  # it has not come whole, or is none
            return None
        end = pos + records_size - 1
        if partitions != _ONE or end + len(_NO_TAGS) != stop or data[end:stop] != _NO_TAGS:
            return None
        records = memoryview(data)[pos:end]
        partition = self._partition(data[topic_at:topic_end], version, index)
        if partition is None or not is_whole(records) or is_transactional(records) == (transactional_id is None):
            return None
        try:
            guard = None if transactional_id is None else self._guard(transactional_id, version, partition, records)
            info = partition.append(records, guard=guard, acks_all=acks == -1)
        except (Rejected, TooMuchAtOnce, UnicodeDecodeError):
            return None
        head = _ANSWER_HEAD.pack(_ANSWER_BYTES + topic_end - topic_at, correlation_id, 0, _ONE)
        self.answered[version] += 1
        tail = _ANSWER.pack(_ONE, index, 0, info.first_offset, info.log_append_time_ms, info.log_start_offset, 1, 0, 0, 0, 0, 0)
        return [head + data[topic_at:topic_end] + tail], stop

    def _guard(self, transactional_id: bytes, version: int, partition: Partition, records: memoryview) -> VerificationGuard | None:
        """What a batch of a transaction is appended with. Raises Rejected where that has to wait, or it is not to be appended."""
        producer_id, epoch, sequence = _PRODUCER.unpack_from(records)
        if producer_id < 0:
            return None
        writer = Writer(transactional_id.decode(), producer_id, epoch, adds=version >= ADDING_SINCE)
        return self._verification.at_once(writer, partition, sequence)

    def _partition(self, topic: bytes, version: int, index: int) -> Partition | None:
        """The partition, if it is here, clients may write to it, and what is appended is acknowledged at once."""
        known = self._partitions
        # A legal name is ASCII: whatever else these bytes may be is not found.
        found = known.by_topic_id(topic) if version >= _BY_ID_SINCE else known.by_name(topic[1:].decode("latin-1"))
        if found is None or is_internal(found.name) or found.name == CLUSTER_METADATA:
            return None
        partition = found.partitions.get(index)
        return partition if partition is not None and partition.acknowledges_at_once else None
