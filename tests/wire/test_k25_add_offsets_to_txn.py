from __future__ import annotations

import pytest

from ottla.broker.core.java_hash import partition_of
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from tests.support.txn_calls import Holder, init


@pytest.mark.parametrize("version", range(5))
def test_the_groups_offsets_partition_is_added_to_the_transaction(client: Client, version: int) -> None:
    client.call(FindCoordinatorRequest("my-group"), version=3)
    holder = init(client)
    assert holder.add_offsets("my-group", version) == ErrorCode.NONE
    (topic,) = holder.describe().topics
    assert (topic.topic, topic.partitions) == ("__consumer_offsets", [partition_of("my-group", 4)])


@pytest.mark.parametrize(("version", "error"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_a_zombie_gets_the_error_of_its_version(client: Client, version: int, error: ErrorCode) -> None:
    client.call(FindCoordinatorRequest("g"), version=3)
    zombie = init(client)
    init(client)
    assert zombie.add_offsets("g", version) == error


def test_an_unknown_transactional_id_is_rejected(client: Client) -> None:
    client.call(FindCoordinatorRequest("g"), version=3)
    init(client)
    assert Holder(client, "other", 0, 0).add_offsets("g") == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_offsets_topic_is_created_for_the_first_transactional_group(client: Client) -> None:
    holder = init(client)
    assert holder.add_offsets("g") == ErrorCode.NONE
    assert [topic.topic for topic in holder.describe().topics] == ["__consumer_offsets"]
