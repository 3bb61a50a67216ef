from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ottla.broker.core import limits
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k19_create_topics import CreatableTopicConfigs, CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.principal import DefaultPrincipalData
from ottla.protocol.schema import decode
from tests.support.cluster_members import CREATE, ClusterBrokerInMemory, forwarded_request, in_envelope, topics_created


@pytest.fixture
async def cluster() -> AsyncIterator[ClusterBrokerInMemory]:
    cluster = ClusterBrokerInMemory()
    yield cluster
    await cluster.end()


async def test_an_envelope_has_the_clients_request_principal_and_address(cluster: ClusterBrokerInMemory) -> None:
    await cluster.begin(topics_created)
    await cluster.member.ask(CREATE, 6, "app")
    (envelope,) = cluster.controller.requests
    inner = forwarded_request(envelope)
    assert (inner.header.api_version, inner.header.client_id, inner.body) == (6, "app", CREATE)
    assert bytes(envelope.body.client_host_address) == bytes([10, 1, 2, 3])
    principal = bytes(envelope.body.request_principal)
    assert (principal[:2], decode(DefaultPrincipalData, principal[2:], 0)) == (b"\0\0", DefaultPrincipalData("User", "ANONYMOUS"))


async def test_a_forwarded_response_with_too_many_elements_is_an_error(cluster: ClusterBrokerInMemory) -> None:
    configs = [CreatableTopicConfigs("a")] * limits.NODE_RESPONSE_ELEMENTS
    response = CreateTopicsResponse(topics=[CreatableTopicResult("a", configs=configs)])
    await cluster.begin(lambda request: in_envelope(forwarded_request(request), response))
    answer = await cluster.member.ask(CREATE, 6, "app")
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@pytest.mark.parametrize(
    ("host", "packed"), [("::1", bytes(15) + b"\1"), ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"), ("node1", bytes(4))]
)
async def test_a_clients_address_is_encoded_in_bytes(cluster: ClusterBrokerInMemory, host: str, packed: bytes) -> None:
    await cluster.begin(topics_created)
    cluster.member.peer.host = host
    await cluster.member.ask(CREATE, 7)
    assert bytes(cluster.controller.requests[0].body.client_host_address) == packed
