"""Altering client quotas: valid entities and values, errors per entity, and no record without a change."""

from __future__ import annotations

from math import inf, nan

import pytest

from ottla.broker.cluster.metadata_records import ClientQuotaRecord, QuotaEntity
from ottla.broker.controller.client_quotas import alter_client_quotas
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k49_alter_client_quotas import EntityData, EntryData, OpData
from tests.support.controllers import LiveController

Part = tuple[str, str | None]
ALICE, APP, LOCAL = ("user", "alice"), ("client-id", "app"), ("ip", "127.0.0.1")


def entry(*parts: Part, **ops: float | None) -> EntryData:
    """Return the quotas to set for an entity with these (type, name) parts; None as a value removes the quota."""
    return EntryData([EntityData(*part) for part in parts], [OpData(key, value or 0.0, value is None) for key, value in ops.items()])


def alter(controller: LiveController, *entries: EntryData) -> list[Rejected | None]:
    return list(controller.run(alter_client_quotas(controller.state.image, entries)).values())


def problem(*parts: Part, **ops: float | None) -> str:
    (error,) = alter(LiveController(), entry(*parts, **ops))
    assert error is not None
    assert error.code is ErrorCode.INVALID_REQUEST
    return error.message


@pytest.fixture
def controller() -> LiveController:
    return LiveController()


@pytest.mark.parametrize("parts", [[ALICE], [APP], [ALICE, APP], [("user", None)], [ALICE, ("client-id", None)]])
def test_a_quota_has_a_user_and_a_client_id(controller: LiveController, parts: list[Part]) -> None:
    assert alter(controller, entry(*parts, producer_byte_rate=1024.0, request_percentage=12.5)) == [None]
    assert controller.state.image.client_quotas == {frozenset(parts): {"producer_byte_rate": 1024.0, "request_percentage": 12.5}}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", None])
def test_an_ip_quota_has_no_other_part(controller: LiveController, address: str | None) -> None:
    assert alter(controller, entry(("ip", address), connection_creation_rate=10.0)) == [None]
    assert "IP entity shouldnot be combined" in problem(("ip", address), ALICE, connection_creation_rate=10.0)


def test_the_parts_of_an_entity_are_written_in_kafkas_order(controller: LiveController) -> None:
    alter(controller, entry(ALICE, APP, consumer_byte_rate=5.0))
    assert controller.log[-1] == ClientQuotaRecord([QuotaEntity(*APP), QuotaEntity(*ALICE)], "consumer_byte_rate", 5.0)


def test_an_unchanged_quota_makes_no_record(controller: LiveController) -> None:
    for _ in range(2):
        alter(controller, entry(ALICE, consumer_byte_rate=5.0, producer_byte_rate=None))
    assert controller.log[1:] == [ClientQuotaRecord([QuotaEntity(*ALICE)], "consumer_byte_rate", 5.0)]


def test_a_quota_is_removed(controller: LiveController) -> None:
    alter(controller, entry(ALICE, consumer_byte_rate=5.0))
    alter(controller, entry(ALICE, consumer_byte_rate=None))
    assert controller.log[-1] == ClientQuotaRecord([QuotaEntity(*ALICE)], "consumer_byte_rate", 0.0, remove=True)
    assert controller.state.image.client_quotas == {}


@pytest.mark.parametrize("value", [nan, inf, -inf])
@pytest.mark.parametrize("key", ["request_percentage", "consumer_byte_rate"])
def test_a_quota_is_a_finite_number(key: str, value: float) -> None:
    assert problem(ALICE, **{key: value}) == f"Quota {key} must be a finite number"


def test_the_error_of_a_repeated_entity_names_it() -> None:
    repeated = [entry(("group", "x"), consumer_byte_rate=1.0)] * 2
    assert [error.message for error in alter(LiveController(), *repeated) if error] == [
        "Ignoring duplicate entity ClientQuotaEntity(entries={group=x})"
    ]


@pytest.mark.parametrize(
    ("parts", "ops", "expected"),
    [
        ([], {"consumer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ([("group", "g")], {"consumer_byte_rate": 1.0}, "Unhandled client quota entity type: group"),
        ([("user", "")], {"consumer_byte_rate": 1.0}, "Empty user not supported"),
        ([("ip", "no such host")], {"connection_creation_rate": 1.0}, "not a valid IP"),
        ([ALICE], {"connection_creation_rate": 1.0}, "Invalid configuration key"),
        ([LOCAL], {"consumer_byte_rate": 1.0}, "Invalid configuration key"),
        ([ALICE], {"consumer_byte_rate": 0.0}, "must be greater than 0"),
        ([ALICE], {"request_percentage": -1.0}, "must be greater than 0"),
        ([ALICE], {"consumer_byte_rate": 1.5}, "cannot be a fractional value"),
        ([LOCAL], {"connection_creation_rate": 2.0**31}, "too large for an INT"),
        ([ALICE], {"consumer_byte_rate": 2.0**64}, "too large for a LONG"),
    ],
)
def test_an_invalid_quota_is_refused(parts: list[Part], ops: dict[str, float | None], expected: str) -> None:
    assert expected in problem(*parts, **ops)


def test_an_invalid_entry_refuses_only_its_entity(controller: LiveController) -> None:
    errors = alter(controller, entry(ALICE, consumer_byte_rate=5.0, a_b=1.0), entry(APP, consumer_byte_rate=5.0))
    assert [error is None for error in errors] == [False, True]
    assert controller.state.image.client_quotas == {frozenset([APP]): {"consumer_byte_rate": 5.0}}


def test_a_duplicate_entity_is_refused_and_the_first_is_applied(controller: LiveController) -> None:
    (error,) = alter(controller, entry(ALICE, consumer_byte_rate=5.0), entry(ALICE, consumer_byte_rate=6.0))
    assert error is not None
    assert controller.state.image.client_quotas == {frozenset([ALICE]): {"consumer_byte_rate": 5.0}}


def test_a_duplicate_key_refuses_its_entity(controller: LiveController) -> None:
    twice = entry(ALICE, consumer_byte_rate=5.0)
    twice.ops *= 2
    (error,) = alter(controller, twice)
    assert error is not None
    assert controller.state.image.client_quotas == {}
