from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.broker.api.reply import CLOSE
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k19_create_topics import CreateTopicsResponse
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.k58_envelope import EnvelopeResponse
from ottla.protocol.schema import Message
from tests.support.cluster_members import CREATE, ClusterBrokerInMemory, forwarded_request, in_envelope, topics_created
from tests.support.simulation import settle


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterBrokerInMemory]:
    cluster = ClusterBrokerInMemory()
    yield cluster
    await cluster.end()


async def test_a_forwarded_request_gets_the_controllers_response_without_a_local_decision(cluster: ClusterBrokerInMemory) -> None:
    await cluster.begin(topics_created)
    response = await cluster.member.ask(CREATE, 6)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", 0), ("b", 0)]
    assert cluster.broker.services.topics.topic("a") is None


async def test_a_version_that_the_controller_does_not_support_closes_the_clients_connection(cluster: ClusterBrokerInMemory) -> None:
    await cluster.begin(lambda request: EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    assert await cluster.member.ask(CREATE, 7) is CLOSE


@pytest.mark.parametrize(
    "answer",
    [
        lambda request: EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        lambda request: EnvelopeResponse(None),
        lambda request: EnvelopeResponse(b"\0\0\0"),
        lambda request: in_envelope(forwarded_request(request), CreateTopicsResponse(), correlation_id=12345),
    ],
    ids=["refused", "empty", "broken", "of another request"],
)
async def test_a_failed_envelope_is_an_unknown_server_error_for_every_element(cluster: ClusterBrokerInMemory, answer: Any) -> None:
    await cluster.begin(answer)
    response = await cluster.member.ask(CREATE, 7)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", -1), ("b", -1)]


async def test_a_controller_without_envelopes_is_an_unknown_server_error(cluster: ClusterBrokerInMemory) -> None:
    await cluster.begin(topics_created, {ApiKey.FETCH: (4, 18)})
    response = await cluster.member.ask(CREATE, 7)
    assert {topic.error_code for topic in response.topics} == {ErrorCode.UNKNOWN_SERVER_ERROR}


def of_topics(response: CreateTopicsResponse) -> set[int]:
    return {topic.error_code for topic in response.topics}


def of_elections(response: ElectLeadersResponse) -> set[int]:
    (topic,) = response.replica_election_results
    assert [result.partition_id for result in topic.partition_result] == [0, 3]
    return {response.error_code, *(result.error_code for result in topic.partition_result)}


@pytest.mark.parametrize(
    ("request_", "version", "errors"),
    [
        (CREATE, 7, of_topics),
        (DescribeQuorumRequest(), 2, lambda response: {response.error_code}),
        (ElectLeadersRequest(topic_partitions=[TopicPartitions("t", [0, 3])]), 2, of_elections),
    ],
    ids=["of topics", "of the whole", "of partitions"],
)
async def test_a_request_without_the_controllers_response_times_out(
    cluster: ClusterBrokerInMemory, request_: Message, version: int, errors: Any
) -> None:
    await cluster.begin(lambda request: None)
    pending = asyncio.ensure_future(cluster.member.ask(request_, version))
    await settle()
    for _ in range(2):
        assert not pending.done()
        await cluster.pass_ms(30_000)
        await cluster.pass_ms(100)
    assert errors(await pending) == {ErrorCode.REQUEST_TIMED_OUT}


async def test_api_versions_limits_forwarded_apis_to_the_controllers_versions(cluster: ClusterBrokerInMemory) -> None:
    served = {ApiKey.ENVELOPE: (0, 0), ApiKey.CREATE_TOPICS: (3, 9), ApiKey.ALTER_CONFIGS: (0, 1), ApiKey.FETCH: (4, 5)}
    await cluster.begin(topics_created, served)

    async def listed() -> dict[int, tuple[int, int]]:
        response = await cluster.member.ask(ApiVersionsRequest("a", "1"), 4)
        return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    before = await listed()
    assert (before[ApiKey.CREATE_TOPICS], before[ApiKey.ALTER_CONFIGS], before[ApiKey.DESCRIBE_QUORUM]) == ((2, 7), (0, 2), (0, 2))
    await cluster.member.ask(CREATE, 7)
    after = await listed()
    assert (after[ApiKey.CREATE_TOPICS], after[ApiKey.ALTER_CONFIGS], after[ApiKey.FETCH]) == ((3, 7), (0, 1), (4, 18))
    assert ApiKey.DESCRIBE_QUORUM not in after
    assert ApiKey.DELETE_TOPICS not in after
