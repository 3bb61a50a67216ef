from __future__ import annotations

import pytest

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.quotas.limits_of_clients import NO_LIMIT, Limits

KEY = "producer_byte_rate"


def target(user: str = "-", client: str = "-") -> QuotaTarget:
    """Return the quota target of "user client-id"; "-" is none, "*" is the default."""
    return frozenset((kind, None if name == "*" else name) for kind, name in (("user", user), ("client-id", client)) if name != "-")


def limits(*targets: tuple[str, str]) -> Limits:
    """Return quotas for the targets; each quota's value is its position, from 1."""
    return Limits({target(*parts): {KEY: float(number)} for number, parts in enumerate(targets, 1)}, KEY)


BY_PRECEDENCE = [("u", "c"), ("u", "*"), ("u", "-"), ("*", "c"), ("*", "*"), ("*", "-"), ("-", "c"), ("-", "*")]


@pytest.mark.parametrize("first", range(len(BY_PRECEDENCE)))
def test_the_more_specific_quota_applies(first: int) -> None:
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
def test_a_quota_is_shared_by_the_connections_that_its_form_names(targets: list[tuple[str, str]], sharers: tuple[str, str]) -> None:
    assert limits(*targets).sharers("u", "c") == sharers


def test_a_client_without_a_quota_has_no_limit() -> None:
    found = limits(("x", "-"), ("-", "y"))
    assert found.limit(found.sharers("u", "c")) == NO_LIMIT
    assert found


def test_quotas_of_other_kinds_and_of_addresses_are_ignored() -> None:
    assert not Limits({target("u"): {"consumer_byte_rate": 1.0}, frozenset([("ip", None)]): {KEY: 1.0}}, KEY)
