"""The partitions that a member's tasks read. Members use them for interactive queries, to find the endpoint of the member that has a key.

Source: Kafka's EndpointToPartitionsManager.
"""

from __future__ import annotations

from ottla.broker.core.java_hash import in_hash_order, string_hash
from ottla.broker.streams.internal_topics import Subtopologies
from ottla.broker.streams.partition_counts import PartitionsOf
from ottla.broker.streams.tasks import Tasks, sorted_tasks
from ottla.protocol.messages.k88_streams_group_heartbeat import TopicPartition


def input_partitions(
    tasks: Tasks, subtopologies: Subtopologies, partitions_of: PartitionsOf, *, only_existing: bool = True
) -> list[TopicPartition]:
    """Return the partitions that the tasks read, by topic. A deleted topic is left out.

    Task n of a subtopology reads partition n of each of the subtopology's topics that has this partition. If `only_existing` is false, as
    before Kafka 4.4, a topic of k partitions is listed with the k lowest task numbers, even if it does not have these partitions.
    """
    found = []
    for subtopology_id, numbers in sorted_tasks(tasks):
        subtopology = subtopologies[subtopology_id]
        for topic in in_hash_order([*sorted(subtopology.source_topics), *subtopology.repartition_source_topics], string_hash):
            count = partitions_of(topic) or 0
            partitions = [number for number in numbers if number < count] if only_existing else numbers[:count]
            if partitions:
                found.append(TopicPartition(topic, partitions))
    return found
