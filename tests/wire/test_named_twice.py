"""An element that is repeated in a request is answered once: otherwise a small request would get a response of gigabytes."""

from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.messages.k09_offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.protocol.messages.k15_describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.k32_describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.k61_describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.k65_describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.k69_consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.schema import Message
from tests.support.group_calls import commit, find_coordinator, stable_member
from tests.support.topic_calls import create
from tests.support.txn_calls import init

TIMES = 3
TOPIC = 2


def asking(times: int) -> list[Message]:
    return [
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)] * times),
        DescribeGroupsRequest(["g"] * times),
        ConsumerGroupDescribeRequest(["g"] * times),
        DescribeConfigsRequest([DescribeConfigsResource(TOPIC, "t", None)] * times),
        DescribeProducersRequest([TopicRequest("t", [0] * times)] * times),
        DescribeTransactionsRequest(["tx"] * times),
    ]


@pytest.mark.parametrize(("once", "again"), list(zip(asking(1), asking(TIMES), strict=True)), ids=lambda request: type(request).__name__)
def test_a_duplicate_element_is_answered_once(client: Client, once: Message, again: Message) -> None:
    create(client, "t")
    init(client)
    find_coordinator(client)
    assert commit(client, 5) == 0
    stable_member(client)
    assert client.call(again) == client.call(once)
