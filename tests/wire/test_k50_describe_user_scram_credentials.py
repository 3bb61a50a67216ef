from __future__ import annotations

from ottla.broker.security.scram import SCRAM_KINDS, salted_password
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.messages.k51_alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion


def described(client: Client, *users: str, all_of_them: bool = False) -> dict[str, tuple[int, str | None, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(None if all_of_them else [UserName(user) for user in users])
    response = client.call(request, 0)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        result.user: (result.error_code, result.error_message, [(each.mechanism, each.iterations) for each in result.credential_infos])
        for result in response.results
    }


def test_only_mechanisms_and_iterations_of_users_are_returned(client: Client) -> None:
    assert described(client) == described(client, all_of_them=True) == {}
    upsertions = [
        ScramCredentialUpsertion(user, kind.number, iterations, b"salt", salted_password(kind, "p", b"salt", iterations))
        for user, kind, iterations in (("ann", SCRAM_KINDS["SCRAM-SHA-256"], 4096), ("bob", SCRAM_KINDS["SCRAM-SHA-512"], 8192))
    ]
    client.call(AlterUserScramCredentialsRequest([], upsertions), 0)
    both = {"ann": (0, "", [(1, 4096)]), "bob": (0, "", [(2, 8192)])}
    assert described(client) == described(client, all_of_them=True) == described(client, "bob", "ann") == both


def test_a_duplicate_or_unknown_user_is_rejected_alone(client: Client) -> None:
    assert described(client, "eve", "ann", "ann") == {
        "eve": (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist: eve", []),
        "ann": (
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: ann",
            [],
        ),
    }
