from __future__ import annotations

from pathlib import Path

from ottla.broker.core.acl import Operation, Resource
from ottla.broker.core.clock import VirtualClock
from ottla.protocol.client import Client
from ottla.protocol.messages.k41_describe_delegation_token import DescribeDelegationTokenRequest
from tests.support.access import acl, allow, ann, bob, delete_all_acls
from tests.support.running_broker import RunningBroker
from tests.support.tokens import DAY_MS, WITH_TOKENS, create_token, describe_tokens, proof_of

NOW = VirtualClock().now_ms()


def seen(client: Client, *owners: str) -> set[str]:
    return {token.token_id for token in describe_tokens(client, *owners).tokens}


def test_a_client_sees_its_own_tokens_and_those_that_it_may_describe(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, ann(broker) as client, bob(broker) as admin:
        own, renewed, theirs, for_eve = (
            create_token(client).token_id,
            create_token(admin, None, "ann").token_id,
            create_token(admin).token_id,
            create_token(admin, "eve").token_id,
        )
        assert seen(admin) == {own, renewed, theirs, for_eve}
        assert seen(client) == {own, renewed}
        assert seen(admin, "bob") == {renewed, theirs, for_eve}, "of which he is owner or asked for"
        assert seen(admin, "eve", "nobody") == {for_eve}
        assert client.call(DescribeDelegationTokenRequest([]), 3).tokens == []
        allow(admin, acl(Resource.DELEGATION_TOKEN, theirs, Operation.DESCRIBE))
        assert seen(client) == {own, renewed, theirs}
        delete_all_acls(admin)
        allow(admin, acl(Resource.USER, "User:eve", Operation.DESCRIBE_TOKENS))
        assert seen(client) == {own, renewed, for_eve}


def test_a_list_that_is_made_in_several_turns_is_complete(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, bob(broker) as admin:
        assert {create_token(admin).token_id for _ in range(150)} == seen(admin)


def test_a_token_is_described_completely_in_every_version(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", WITH_TOKENS, clock=VirtualClock()) as broker, bob(broker) as admin:
        token_id = create_token(admin, "eve", "ann", "zoe").token_id
        for version in (1, 2, 3):
            (token,) = describe_tokens(admin, version=version).tokens
            assert (token.token_id, bytes(token.hmac)) == (token_id, proof_of(token_id))
            assert (token.principal_type, token.principal_name) == ("User", "eve")
            requester = ("User", "bob") if version == 3 else ("", "")
            assert (token.token_requester_principal_type, token.token_requester_principal_name) == requester
            assert [(each.principal_type, each.principal_name) for each in token.renewers] == [("User", "ann"), ("User", "zoe")]
            assert (token.issue_timestamp, token.expiry_timestamp, token.max_timestamp) == (NOW, NOW + DAY_MS, NOW + 7 * DAY_MS)
