from __future__ import annotations

import inspect
from typing import Any

from ottla.broker.api.context import Context, Listener, Peer
from ottla.broker.api.routes import broker_routes
from ottla.broker.core.principal import ANONYMOUS, Principal
from ottla.broker.core.security_protocol import SecurityProtocol
from ottla.broker.net.credentials import Credentials
from ottla.broker.security.scram import SHA_256
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k38_create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.protocol.messages.k39_renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.k40_expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.principal import principal_bytes
from ottla.protocol.schema import Message
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, run_in_a_cluster

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SECRET = {"delegation.token.secret.key": "s", "delegation.token.expiry.check.interval.ms": "5000"}
ANN = Principal("User", "ann")
CHANGES = (CreateDelegationTokenRequest(), RenewDelegationTokenRequest(b"x"), ExpireDelegationTokenRequest(b"x"))


def run(body: Any, size: int) -> None:
    given = {name.replace(".", "_"): value for name, value in SECRET.items()}
    run_in_a_cluster(lambda: OwnedCluster(size, controller=SECRET, **given), body)


async def ask(
    cluster: OwnedCluster, node: int, request: Message, who: Principal = ANN, protocol: SecurityProtocol = SecurityProtocol.SASL_SSL
) -> Any:
    """Return the response of broker `node` to a request by the authenticated principal `who`, over `protocol`."""
    peer = Peer("127.0.0.1", "h", 1, Listener("L", "h", 1, protocol=protocol), principal=who)
    broker = cluster.members[node].broker
    assert broker is not None
    answer = broker_routes()[request.API_KEY].handle(Context(request.MAX_VERSION, "test", peer, broker.services, request.API_KEY), request)
    return await cluster.done(answer) if inspect.iscoroutine(answer) else answer


async def ask_controller(cluster: OwnedCluster, request: Message, *, by_token: bool | None = None) -> Any:
    """Return the controller's response to a direct request, or to one in an envelope from a client with or without a token."""
    if by_token is None:
        return await cluster.ask_controller(request)
    return await cluster.ask_in_envelope(request, principal_bytes(*ANN, by_token=by_token))


@played_by(run, 2)
async def test_a_token_is_known_to_all_brokers_until_it_expires(cluster: OwnedCluster) -> None:
    token = await ask(cluster, 1, CreateDelegationTokenRequest(renewers=[CreatableRenewers("User", "bob")], max_lifetime_ms=60_000))
    assert (token.error_code, token.principal_name, token.max_timestamp_ms - token.issue_timestamp_ms) == (0, "ann", 60_000)
    broker = cluster.members[2].broker
    assert broker is not None
    services = broker.services
    await cluster.until(lambda: token.token_id in services.topics.image.delegation_tokens, "broker 2 has heard of the token")
    (described,) = (await ask(cluster, 2, DescribeDelegationTokenRequest(None), Principal("User", "bob"))).tokens
    assert bytes(described.hmac) == bytes(token.hmac)
    found = Credentials(lambda: services.topics.image, {}, lambda _: 1, "s").find(SHA_256, token.token_id, True)
    assert found is not None
    assert (found.owner, found.expires_ms) == ("ann", token.expiry_timestamp_ms)
    renewed = await ask(cluster, 2, RenewDelegationTokenRequest(token.hmac, 1_000), Principal("User", "bob"))
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, cluster.clock.now_ms() + 1_000)
    await cluster.until(lambda: not services.topics.image.delegation_tokens, "the controller has swept it away")
    assert (await ask(cluster, 1, ExpireDelegationTokenRequest(token.hmac))).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@played_by(run, 1)
async def test_a_broker_rejects_an_unauthenticated_client_without_the_controller(cluster: OwnedCluster) -> None:
    cluster.controller_host.crash()  # nothing can be forwarded
    for who, protocol in ((ANN, SecurityProtocol.PLAINTEXT), (ANONYMOUS, SecurityProtocol.SSL)):
        for request in (*CHANGES, DescribeDelegationTokenRequest(None)):
            assert (await ask(cluster, 1, request, who, protocol)).error_code == NOT_ALLOWED
    cluster.members[1].crash()  # it could not stop gracefully without a controller


@played_by(run, 0)
async def test_a_controller_trusts_a_brokers_check_of_the_connection_but_accepts_no_token(cluster: OwnedCluster) -> None:
    for request in CHANGES:
        assert (await ask_controller(cluster, request)).error_code == NOT_ALLOWED, "on PLAINTEXT"
        assert (await ask_controller(cluster, request, by_token=True)).error_code == NOT_ALLOWED
    wanted = CreateDelegationTokenRequest(renewers=[CreatableRenewers("Group", "g")])
    refused = await ask_controller(cluster, wanted, by_token=False)
    assert (refused.error_code, refused.max_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, 0)
    token = await ask_controller(cluster, CreateDelegationTokenRequest(), by_token=False)
    assert token.error_code == 0
    assert list(cluster.controller_host.image.delegation_tokens) == [token.token_id]
