from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.api import k58_envelope
from ottla.broker.api.context import Context, Listener, Peer
from ottla.broker.api.routes import Route
from ottla.broker.core import limits
from ottla.broker.core.acl import STANDARD_AUTHORIZER
from ottla.broker.core.clock import Clock
from ottla.broker.runtime.upkeep.turns import Turns
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.codec import decode_response, encode_request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.frame import PREFIX_BYTES
from ottla.protocol.messages.k19_create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.k20_delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k43_elect_leaders import ElectLeadersRequest
from ottla.protocol.messages.k55_describe_quorum import DescribeQuorumRequest
from ottla.protocol.messages.k58_envelope import EnvelopeRequest
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.principal import principal_bytes
from ottla.protocol.schema import Message
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, run_owned

LOOPBACK = bytes([127, 0, 0, 1])
CREATE_ACLS_VERSION = 3


def guarded(super_users: str) -> dict[str, str]:
    return {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": super_users}


async def handed_on(cluster: OwnedCluster, request: Message, user: str, version: int) -> Any:
    """Return the controller's response to a request that `user` sent to a broker, and that the broker forwards."""
    return await cluster.ask_in_envelope(request, principal_bytes("User", user), version)


@played_by(run_owned, 0, guarded("User:ANONYMOUS"))
async def test_a_forwarded_request_is_authorized_for_the_client(cluster: OwnedCluster) -> None:
    acl = AclCreation(2, "t", 3, "User:ann", "127.0.0.1", 5, 3)
    wanted = CreateTopicsRequest([CreatableTopic("t", 1, 1)], validate_only=True)

    async def created() -> int:
        (topic,) = (await handed_on(cluster, wanted, "ann", 7)).topics
        return int(topic.error_code)

    assert await created() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (refused,) = (await handed_on(cluster, CreateAclsRequest([acl]), "ann", CREATE_ACLS_VERSION)).results
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (made,) = (await handed_on(cluster, CreateAclsRequest([acl]), "ANONYMOUS", CREATE_ACLS_VERSION)).results
    assert made.error_code == 0
    assert await created() not in {0, ErrorCode.TOPIC_AUTHORIZATION_FAILED}  # no broker is registered
    response = await cluster.ask_controller(DescribeAclsRequest(1, None, 1, None, None, 1, 1))
    assert [resource.resource_name for resource in response.resources] == ["t"]


@pytest.mark.parametrize(
    "request_", [EnvelopeRequest(b"", principal_bytes("User", "root"), LOOPBACK), BrokerHeartbeatRequest(1, 1), ElectLeadersRequest()]
)
@played_by(run_owned, 0, guarded("User:root"))
async def test_an_envelope_of_a_client_is_rejected(cluster: OwnedCluster, request_: Message) -> None:
    assert (await cluster.ask_controller(request_)).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (await cluster.ask_controller(DescribeQuorumRequest())).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("principal", [None, b"", b"\0\7abc", b"\0\0\xff"])
@played_by(run_owned, 0)
async def test_an_invalid_principal_is_rejected(cluster: OwnedCluster, principal: bytes | None) -> None:
    answer = await cluster.ask_controller(EnvelopeRequest(b"", principal, LOOPBACK))
    assert answer.error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def framed(request: Message, version: int) -> bytes:
    return b"".join(encode_request(request.API_KEY, version, 7, "test", request))[PREFIX_BYTES:]


def acls(size: int) -> CreateAclsRequest:
    """Return a CreateAcls request of `size` bytes."""
    request = CreateAclsRequest([AclCreation(2, "t" * 32_000, 3, "User:ann", "*" * 20_000, 2, 3) for _ in range(size // 52_100)])
    while (missing := size - len(framed(request, CREATE_ACLS_VERSION))) > 0:
        request.creations.append(AclCreation(2, "t" * min(missing, 32_000), 3, "User:ann", "*", 2, 3))
        if (beyond := len(framed(request, CREATE_ACLS_VERSION)) - size) > 0:
            last = request.creations[-1]
            last.resource_name = last.resource_name[beyond:]
    assert missing == 0
    return request


@played_by(run_owned, 0)
async def test_a_clients_request_never_closes_its_brokers_connection(cluster: OwnedCluster) -> None:
    """A broker resends requests whose connection to the controller broke, and handles no other client's request meanwhile."""
    # with an unknown resource type
    frame = framed(CreateAclsRequest([AclCreation(0, "t", 3, "User:ann", "*", 2, 3)]), CREATE_ACLS_VERSION)
    for sent in (frame, frame[:-1], b""):
        answer = await cluster.ask_controller(EnvelopeRequest(sent, principal_bytes("User", "ann"), LOOPBACK))
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    largest = acls(limits.STRUCTURED_REQUEST_BYTES)
    made = await handed_on(cluster, largest, "ann", CREATE_ACLS_VERSION)
    assert len(made.results) == len(largest.creations)


def test_a_forwarded_request_with_many_elements_is_handled_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def deleted(_: object, request: Message) -> Message:
        assert isinstance(request, DeleteTopicsRequest)
        sizes.append(len(request.topic_names))
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name) for name in request.topic_names])

    async def on_this_thread(work: Callable[[], Any]) -> Any:
        return work()

    route = Route(0, 99, 0, lambda: deleted)
    monkeypatch.setattr(k58_envelope, "controller_routes", lambda: {ApiKey.DELETE_TOPICS: route})
    services = SimpleNamespace(clock=Clock(), turns=Turns(Clock()), compute=on_this_thread, authorizer=None)
    broker = Peer("127.0.0.1", "127.0.0.1", 9093, Listener("CONTROLLER", "127.0.0.1", 9093))
    names = [f"topic-{number}" for number in range(1_000)]
    sent = EnvelopeRequest(framed(DeleteTopicsRequest(topic_names=names), 5), principal_bytes("User", "ann"), LOOPBACK)
    answer = asyncio.run(k58_envelope.handle(Context(0, None, broker, cast(Any, services)), sent))
    assert answer.error_code == 0
    assert answer.response_data is not None
    _, response = decode_response(ApiKey.DELETE_TOPICS, 5, answer.response_data)
    assert [topic.name for topic in response.responses] == names
    assert sizes == [50] * 20


@played_by(run_owned, 0)
async def test_a_forwarded_request_with_too_many_elements_is_not_handled(cluster: OwnedCluster) -> None:
    many = CreateAclsRequest([AclCreation(2, "t", 3, "User:ann", "*", 2, 3)] * 10_001)
    sent = framed(many, CREATE_ACLS_VERSION)
    answer = await cluster.ask_controller(EnvelopeRequest(sent, principal_bytes("User", "ann"), LOOPBACK))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
