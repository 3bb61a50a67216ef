"""Compare Ottla's cluster with Apache Kafka's while a broker is down (stopped or killed) and after its restart, by the responses of the
running brokers.

Rule: the broker is always broker 3. Broker 1, the next running replica, becomes leader of its partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from client_compat.differential.cluster_scenarios.common import (
    Placement,
    creatable,
    create,
    wait_until_coordinated,
    wait_until_in_sync,
    wait_until_known,
    wait_until_replicated,
)
from client_compat.differential.cluster_scenarios.controller import PREFERRED, UNCLEAN, moved
from client_compat.differential.cluster_scenarios.coordinators import found
from client_compat.differential.cluster_scenarios.describe import compare_descriptions
from client_compat.differential.cluster_scenarios.offsets import ends_of_epochs
from client_compat.differential.cluster_scenarios.writing import write
from client_compat.differential.nodes import Nodes
from client_compat.differential.scenarios.common import batch, producer_id
from client_compat.differential.scenarios.fetch import part, request
from client_compat.differential.scenarios.offsets import request as offsets
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k21_delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest

FAILED, NEW_LEADER = 3, 1
PLACEMENT: Placement = ((3, 1, 2), (1, 2, 3))
RETRIED, STAYS = range(2)


def run_failure(nodes: Nodes, take_down: Callable[[int], None], name: str) -> None:
    """Send requests before broker 3 goes down, while it is down, and after its restart; `take_down` stops or kills it.

    The topic `name` gets another leader. Two further topics depend on broker 3: `alone` has its only replica there, and `pair` has two
    replicas that must both be in sync.
    """
    alone, pair = f"{name}-alone", f"{name}-pair"
    ids = {
        name: create(nodes, name, PLACEMENT),
        alone: create(nodes, alone, [(FAILED,)]),
        pair: create(nodes, pair, [(FAILED, NEW_LEADER)]),
    }
    own = producer_id(nodes.at(2))
    sent = [batch(b"a", b"b", producer_id=own, producer_epoch=0, base_sequence=sequence) for sequence in (0, 2)]
    for topic, topic_id in ids.items():
        for records in sent:
            write(nodes, FAILED, f"to {topic}", topic, topic_id, records)
        wait_until_replicated(nodes, topic)
    take_down(FAILED)
    wait_until_settled(nodes, ids)
    for topic, topic_id in ids.items():
        compare_descriptions(nodes, topic, topic_id)
        send_while_down(nodes, topic, topic_id, sent, batch(b"c", producer_id=own, producer_epoch=0, base_sequence=4))
    write(nodes, NEW_LEADER, "as ever", name, ids[name], batch(b"x"), partition=STAYS)
    send_rejected_requests(nodes, name, alone)
    found(nodes)
    nodes.start(FAILED)
    wait_until_settled(nodes, ids)
    wait_until_coordinated(nodes)
    for topic, topic_id in ids.items():
        compare_descriptions(nodes, topic, topic_id)
        send_after_restart(nodes, topic, topic_id, sent, batch(b"d", producer_id=own, producer_epoch=0, base_sequence=5))


def wait_until_settled(nodes: Nodes, topics: Iterable[str]) -> None:
    """Wait until every running broker knows which brokers run, and the first running replica of each partition leads it."""
    wait_until_known(nodes, nodes.living)
    for topic in (*topics, "__consumer_offsets", "__transaction_state"):
        wait_until_in_sync(nodes, topic)


def send_while_down(nodes: Nodes, topic: str, topic_id: bytes, sent: Sequence[bytes], following: bytes) -> None:
    """Send requests to the remaining brokers while broker 3 is down, also about partitions without a leader: Produce with the batches
    `sent` again and with `following`, the next batch, Fetch and ListOffsets with each leader epoch."""
    for node_id in nodes.living:
        for acks in (-1, 1):
            write(nodes, node_id, f"the newest again, acks {acks}", topic, topic_id, sent[1], acks=acks)
            write(nodes, node_id, f"an older one again, acks {acks}", topic, topic_id, sent[0], acks=acks)
        for version in (9, 13):
            write(nodes, node_id, "the next", topic, topic_id, following, version=version)
    wait_until_replicated(nodes, topic)
    for version in (11, 12, 16, 18):
        for epoch in (-1, 0, 1, 2):
            nodes.everywhere(f"fetch, epoch {epoch}", request(topic, topic_id, part(current_leader_epoch=epoch)), version)
    for timestamp in (-1, -2, -3, -4):
        nodes.everywhere(f"time {timestamp}", offsets(topic, 0, timestamp))
    for epoch in (0, 1, 2):
        nodes.everywhere(f"offsets, epoch {epoch}", offsets(topic, 0, -1, epoch=epoch))
    ends_of_epochs(nodes, "led on", topic)
    nodes.everywhere("producers", DescribeProducersRequest([TopicRequest(topic, [0])]))


def send_rejected_requests(nodes: Nodes, name: str, alone: str) -> None:
    """Send requests that the controller rejects, or that time out, while broker 3 is down."""
    for label, topic in {
        "three replicas of two": CreatableTopic("refused", 1, 3),
        "only on who is gone": creatable("refused", [(FAILED,)]),
    }.items():
        nodes.ask(2, label, CreateTopicsRequest([topic], validate_only=True))
    for kind in (PREFERRED, UNCLEAN):
        wanted = [TopicPartitions(name, [RETRIED, STAYS]), TopicPartitions(alone, [0])]
        nodes.ask(1, f"election {kind}", ElectLeadersRequest(kind, wanted))
    nodes.ask(2, "no move to call off", moved(name, None))
    cut = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, 1)]) for topic in (name, alone)]
    nodes.everywhere("delete records", DeleteRecordsRequest(cut, 5_000))
    nodes.everywhere("configurations of who is gone", DescribeConfigsRequest([DescribeConfigsResource(4, str(FAILED), ["node.id"])]))


def send_after_restart(nodes: Nodes, topic: str, topic_id: bytes, sent: Sequence[bytes], following: bytes) -> None:
    """Send requests after the restart of broker 3, when it leads its partitions again and has replicated the records that it missed. `sent`
    are the batches from before, `following` is the next batch."""
    for node_id in nodes.living:
        write(nodes, node_id, "the newest of before again", topic, topic_id, sent[1])
        write(nodes, node_id, "more", topic, topic_id, following)
    wait_until_replicated(nodes, topic)
    for version in (12, 18):
        nodes.everywhere("fetch", request(topic, topic_id, part()), version)
    nodes.everywhere("the beginning", offsets(topic, 0, -2))
    ends_of_epochs(nodes, "back", topic)
    nodes.everywhere("producers", DescribeProducersRequest([TopicRequest(topic, [0])]))


def stopped(nodes: Nodes) -> None:
    """Compare the responses of the other brokers while broker 3 is down after a controlled shutdown, and of all brokers after its
    restart."""
    run_failure(nodes, nodes.stop, "stopped")


def killed(nodes: Nodes) -> None:
    """Compare the responses of the other brokers while broker 3 is down after SIGKILL, and of all brokers after its restart. The controller
    fences the killed broker when its session expires."""
    run_failure(nodes, nodes.kill, "killed")
