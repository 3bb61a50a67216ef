from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from ottla.protocol.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.principal import principal_bytes
from ottla.protocol.schema import Message
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, in_an_owned_cluster

LOOPBACK = bytes([127, 0, 0, 1])


async def ask(cluster: OwnedCluster, request: Message, version: int, *, forwarded: bool) -> Any:
    """Send a request directly or in an envelope, and return its response."""
    if forwarded:
        return await cluster.ask_in_envelope(request, principal_bytes("User", "ANONYMOUS"), version)
    return await cluster.ask_controller(request, version)


def quota(*entity: tuple[str, str | None], **values: float) -> EntryData:
    return EntryData([EntityData(*part) for part in entity], [OpData(key, value, remove=False) for key, value in values.items()])


@pytest.mark.parametrize("forwarded", [False, True])
@pytest.mark.parametrize("version", [0, 1])
@played_by(in_an_owned_cluster, size=0)
async def test_quotas_are_stored_and_each_entity_has_a_result(cluster: OwnedCluster, version: int, forwarded: bool) -> None:
    entries = [quota(("user", "alice"), ("client-id", None), consumer_byte_rate=7.0), quota(("user", "bob"), a_b=1.0)]
    fine, wrong = (await ask(cluster, AlterClientQuotasRequest(entries), version, forwarded=forwarded)).entries
    assert fine.error_code == ErrorCode.NONE
    assert {(part.entity_type, part.entity_name) for part in fine.entity} == {("user", "alice"), ("client-id", None)}
    assert (wrong.error_code, wrong.error_message) == (ErrorCode.INVALID_REQUEST, "Invalid configuration key a_b")
    target = frozenset({("user", "alice"), ("client-id", None)})
    assert cluster.controller_host.image.client_quotas == {target: {"consumer_byte_rate": 7.0}}


@played_by(in_an_owned_cluster, size=0)
async def test_validate_only_quotas_are_not_stored(cluster: OwnedCluster) -> None:
    request = AlterClientQuotasRequest([quota(("user", "alice"), consumer_byte_rate=7.0)], validate_only=True)
    (fine,) = (await ask(cluster, request, 1, forwarded=False)).entries
    assert fine.error_code == ErrorCode.NONE
    assert cluster.controller_host.image.client_quotas == {}


@pytest.mark.parametrize("forwarded", [False, True])
@played_by(in_an_owned_cluster, size=0)
async def test_credentials_are_stored_and_each_user_has_a_result(cluster: OwnedCluster, forwarded: bool) -> None:
    request = AlterUserScramCredentialsRequest(
        [ScramCredentialDeletion("bob", 1)], [ScramCredentialUpsertion("alice", 2, 4096, b"salt", b"salted")]
    )
    results = (await ask(cluster, request, 0, forwarded=forwarded)).results
    assert {result.user: result.error_code for result in results} == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert list(cluster.controller_host.image.scram) == [(2, "alice")]
