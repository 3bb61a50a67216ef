from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from tests.support.quota_calls import ALICE, ALICES_APP, APP, EVERY_USER, LOCAL, Target, quota, set_quota

EXACT, DEFAULT, ANY = 0, 1, 2
QUOTAS: dict[Target, dict[str, float]] = {
    ALICE: {"producer_byte_rate": 1.0},
    APP: {"consumer_byte_rate": 2.0},
    ALICES_APP: {"request_percentage": 3.5, "producer_byte_rate": 4.0},
    EVERY_USER: {"controller_mutation_rate": 5.0},
    LOCAL: {"connection_creation_rate": 1000.0},
}


@pytest.fixture
def client(client: Client) -> Iterator[Client]:
    """A client of a broker with quotas."""
    for target, quotas in QUOTAS.items():
        set_quota(client, target, **quotas)
    return client


def described(client: Client, *parts: ComponentData, strict: bool = False, version: int = 1) -> dict[Target, dict[str, float]]:
    answer = client.call(DescribeClientQuotasRequest(list(parts), strict), version=version)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {each.key: each.value for each in entry.values}
        for entry in answer.entries
    }


@pytest.mark.parametrize("version", [0, 1])
def test_without_a_filter_all_quotas_are_returned(client: Client, version: int) -> None:
    assert described(client, version=version) == QUOTAS


def test_a_list_that_is_made_in_several_turns_is_complete(client: Client) -> None:
    targets: list[Target] = [(("user", f"u-{number}"),) for number in range(250)]
    entries = [quota(target, producer_byte_rate=1.0) for target in targets]
    assert {each.error_code for each in client.call(AlterClientQuotasRequest(entries)).entries} == {0}
    assert set(described(client, ComponentData("user", ANY, None), strict=True)) == {*targets, ALICE, EVERY_USER}


@pytest.mark.parametrize(
    ("parts", "strict", "expected"),
    [
        ([ComponentData("user", EXACT, "alice")], False, [ALICE, ALICES_APP]),
        ([ComponentData("user", EXACT, "alice")], True, [ALICE]),
        ([ComponentData("user", DEFAULT, None)], False, [EVERY_USER]),
        ([ComponentData("user", ANY, None)], False, [ALICE, ALICES_APP, EVERY_USER]),
        ([ComponentData("user", ANY, None), ComponentData("client-id", EXACT, "app")], True, [ALICES_APP]),
        ([ComponentData("client-id", EXACT, "nobody")], False, []),
        ([ComponentData("ip", ANY, None)], False, [LOCAL]),
        ([], True, []),
    ],
)
def test_a_filter_matches_components_and_a_strict_one_all_of_them(
    client: Client, parts: list[ComponentData], strict: bool, expected: list[Target]
) -> None:
    assert described(client, *parts, strict=strict) == {target: QUOTAS[target] for target in expected}


@pytest.mark.parametrize(
    ("parts", "code", "message"),
    [
        ([ComponentData("", EXACT, "x")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([ComponentData("user", ANY, None)] * 2, ErrorCode.INVALID_REQUEST, "Entity type user cannot appear more than once in the filter."),
        ([ComponentData("group", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([ComponentData("user", 3, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
    ],
)
def test_an_invalid_filter_is_rejected_in_kafkas_words(client: Client, parts: list[ComponentData], code: ErrorCode, message: str) -> None:
    answer = client.call(DescribeClientQuotasRequest(parts))
    assert (answer.error_code, answer.error_message, answer.entries) == (code, message, None)
