"""Writes the input topic for a program under test that consumes, and checks whether a group has read all of it. The input has committed and
aborted records.

Rules:
- Each partition begins with data and ends with a non-transactional record, so that a group that has read everything has committed the log
  end offset.
- The last records are written after the scenario's fault. So a program whose last offset commit failed because of the fault reads more
  records, and commits again.
- The values of aborted records begin with `aborted-`, so that a program that reads uncommitted data is recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.broker.verification.verifier_client import BY_GROUP, BY_TRANSACTION, VerifierClient
from ottla.protocol.messages.k00_produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.k24_add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.k26_end_txn import EndTxnRequest
from ottla.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.k90_describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.protocol.records.record import SimpleRecord, build_batch

PARTITIONS = 2
BATCH_RECORDS = 5
LAST_RECORDS = 2
"""The number of records at the end of each input partition that are written only after the program under test has read all earlier ones."""
LOCK_MS: Final = 15_000
"""The lowest value of share.record.lock.duration.ms that a share group may have. With it, a record that no member acknowledges is soon
delivered again."""
SHARE_SETTINGS: Final[Mapping[str, str]] = {
    "share.auto.offset.reset": "earliest",
    "share.isolation.level": "read_committed",
    "share.record.lock.duration.ms": str(LOCK_MS),
}
"""Settings of the share group that the program under test joins: it starts at the first record, receives only committed records, and has
short record locks."""
_ABORTED = 3
"""The number of records in each aborted transaction."""
_PRODUCE, _ADD, _END, _OFFSET_FETCH, _INIT = 9, 3, 3, 8, 4
_ALTER_CONFIGS, _DESCRIBE_SHARE_OFFSETS = 1, 1
_GROUP_RESOURCE, _SET, _DELETE = 32, 0, 1


def fill(verifier_client: VerifierClient, topic: str, records: int, now_ms: int) -> None:
    """Write the input records `in-0` … `in-<records - 1>` with keys `key-N` to `topic`, alternating between its partitions, with aborted
    transactions between the batches. The last LAST_RECORDS records of each partition are left out; `fill_last` writes them later."""
    for partition in range(PARTITIONS):
        numbers = range(partition, records, PARTITIONS)[:-LAST_RECORDS]
        for first in range(0, len(numbers), BATCH_RECORDS):
            mine = numbers[first : first + BATCH_RECORDS]
            if first:
                _abort_some(verifier_client, topic, partition, mine[0], now_ms)
            _write(verifier_client, topic, partition, mine, now_ms)


def fill_last(verifier_client: VerifierClient, topic: str, partition: int, records: int, now_ms: int) -> None:
    """Write the last LAST_RECORDS records of one partition of the input topic, which `fill` left out. `records` is the total number of
    input records of the topic."""
    _write(verifier_client, topic, partition, range(partition, records, PARTITIONS)[-LAST_RECORDS:], now_ms)


def any_group_is_done(verifier_client: VerifierClient, groups: Iterable[str], topic: str, ends: dict[int, int]) -> bool:
    """Return whether one of `groups` has committed the end offset of every partition of `topic`. `ends` maps each partition to its end
    offset. Raises OSError if no broker answers."""
    for name in groups:
        request_group = OffsetFetchRequestGroup(name)
        request_group.topics = None
        request = OffsetFetchRequest(groups=[request_group], require_stable=False)
        (group,) = verifier_client.call(verifier_client.coordinator(BY_GROUP, name), request, _OFFSET_FETCH).groups
        found = {part.partition_index: part.committed_offset for each in group.topics if each.name == topic for part in each.partitions}
        if all(found.get(partition, -1) >= end for partition, end in ends.items()):
            return True
    return False


def configure_share_group(verifier_client: VerifierClient, group: str, settings: Mapping[str, str | None] = SHARE_SETTINGS) -> None:
    """Change settings of a share group; a value of None removes the setting. By default, set the values that the program under test needs
    to read its input."""
    configs = [AlterableConfig(name, _DELETE if value is None else _SET, value) for name, value in settings.items()]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(_GROUP_RESOURCE, group, configs)])
    verifier_client.ask(verifier_client.anybody, request, _ALTER_CONFIGS, lambda answer: answer.responses[0])


def share_group_is_done(verifier_client: VerifierClient, group: str, topic: str) -> bool:
    """Return whether a share group has accepted, rejected or archived every record of `topic`. Raises OSError if no broker answers.

    That is so if the group's lag is 0. Its start offset is not compared, because it is updated only with the next acknowledgement.
    """
    request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group)])
    request.groups[0].topics = None
    (found,) = verifier_client.call(verifier_client.coordinator(BY_GROUP, group), request, _DESCRIBE_SHARE_OFFSETS).groups
    lags = {part.partition_index: part.lag for each in found.topics if each.topic_name == topic for part in each.partitions}
    return lags == dict.fromkeys(range(PARTITIONS), 0)


def find_transaction_coordinator(verifier_client: VerifierClient, transactional_id: str) -> None:
    """Wait until the coordinator of the transactional id answers; create `__transaction_state` if it does not exist."""
    verifier_client.coordinator(BY_TRANSACTION, transactional_id)()


def _write(verifier_client: VerifierClient, topic: str, partition: int, numbers: Iterable[int], now_ms: int) -> None:
    values = [SimpleRecord(b"key-%d" % number, b"in-%d" % number, now_ms) for number in numbers]
    _produce(verifier_client, topic, partition, None, build_batch(values))


def _abort_some(verifier_client: VerifierClient, topic: str, partition: int, number: int, now_ms: int) -> None:
    name = f"{topic}-aborted"
    at = verifier_client.coordinator(BY_TRANSACTION, name)
    holder = verifier_client.ask(at, InitProducerIdRequest(name, 60_000), _INIT)
    request = AddPartitionsToTxnRequest()
    request.v3_and_below_transactional_id = name
    request.v3_and_below_producer_id, request.v3_and_below_producer_epoch = holder.producer_id, holder.producer_epoch
    request.v3_and_below_topics = [AddPartitionsToTxnTopic(topic, [partition])]
    verifier_client.ask(at, request, _ADD, lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0])
    values = [SimpleRecord(b"key-%d" % number, b"aborted-%d-%d" % (number, each), now_ms) for each in range(_ABORTED)]
    batch = build_batch(values, producer_id=holder.producer_id, producer_epoch=holder.producer_epoch, base_sequence=0, transactional=True)
    _produce(verifier_client, topic, partition, name, batch)
    verifier_client.ask(at, EndTxnRequest(name, holder.producer_id, holder.producer_epoch, False), _END)
    # Kafka responds before it writes the markers, which would move the end of the input. The next InitProducerId is rejected until then.
    verifier_client.ask(at, InitProducerIdRequest(name, 60_000), _INIT)


def _produce(verifier_client: VerifierClient, topic: str, partition: int, transactional_id: str | None, batch: bytes) -> None:
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=data)
    verifier_client.ask(
        verifier_client.leader(topic, partition), request, _PRODUCE, lambda answer: answer.responses[0].partition_responses[0]
    )
