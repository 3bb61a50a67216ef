"""Which quota holds for whom, and who shares it."""

from __future__ import annotations

import pytest

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.quotas.limits_of_clients import NO_LIMIT, Limits

KEY = "producer_byte_rate"


def target(user: str = "-", client: str = "-") -> QuotaTarget:
    """ "-" is none, "*" is any."""
    return frozenset((kind, None if name == "*" else name) for kind, name in (("user", user), ("client-id", client)) if name != "-")


def limits(*targets: tuple[str, str]) -> Limits:
    """Each has its number as a quota, from 1."""
    return Limits({target(*parts): {KEY: float(number)} for number, parts in enumerate(targets, 1)}, KEY)


BY_PRECEDENCE = [("u", "c"), ("u", "*"), ("u", "-"), ("*", "c"), ("*", "*"), ("*", "-"), ("-", "c"), ("-", "*")]


@pytest.mark.parametrize("first", range(len(BY_PRECEDENCE)))
def test_the_more_exact_quota_holds(first: int) -> None:
    found = limits(*BY_PRECEDENCE[first:])
    assert found.limit(found.sharers("u", "c")) == 1.0


@pytest.mark.parametrize(
    ("targets", "sharers"),
    [
        ([("u", "-"), ("*", "-")], ("u", "")),
        ([("-", "*")], ("", "c")),
        ([("*", "*")], ("u", "c")),
        ([("u", "-"), ("-", "c")], ("u", "")),
        ([("x", "-"), ("-", "c")], ("", "c")),
        ([("u", "*"), ("u", "-")], ("u", "c")),
    ],
)
def test_a_quota_is_shared_by_those_of_its_sort(targets: list[tuple[str, str]], sharers: tuple[str, str]) -> None:
    assert limits(*targets).sharers("u", "c") == sharers


def test_who_has_no_quota_has_no_limit() -> None:
    found = limits(("x", "-"), ("-", "y"))
    assert found.limit(found.sharers("u", "c")) == NO_LIMIT
    assert found


def test_quotas_of_other_kinds_and_of_addresses_are_none() -> None:
    assert not Limits({target("u"): {"consumer_byte_rate": 1.0}, frozenset([("ip", None)]): {KEY: 1.0}}, KEY)
