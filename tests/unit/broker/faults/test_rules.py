"""Rules of scripted faults: their syntax, what they match, how often."""

from __future__ import annotations

import pytest

from ottla.broker.faults.rules import FaultAction, FaultRule, FaultSyntax, make_rule, parse_rule
from ottla.broker.faults.subject import Subject
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode


def produce(*partitions: tuple[str, int], client: str = "app", connection: int = 1, transactional_id: str = "") -> Subject:
    return Subject(ApiKey.PRODUCE, client, connection, {transactional_id} - {""}, set(), list(partitions))


def hits(rule: FaultRule, subject: Subject, times: int = 1) -> list[bool]:
    return [rule.hits_request(subject) for _ in range(times)]


def test_the_same_seed_hits_the_same_requests() -> None:
    def outcome(seed: int) -> list[bool]:
        return hits(parse_rule(f"drop-ack:api=Produce,share=0.3,seed={seed}"), produce(("t", 0)), 200)

    assert outcome(7) == outcome(7) != outcome(8)
    assert 30 < sum(outcome(7)) < 90


def test_a_rule_passes_the_first_matches_and_is_spent_after_its_times() -> None:
    rule = parse_rule("error:code=NOT_LEADER_OR_FOLLOWER,after=1,times=2")
    assert hits(rule, produce(("t", 0)), 5) == [False, True, True, False, False]
    assert (rule.spent, rule.consumed) == (True, True)


def test_a_rule_without_times_is_consumed_by_one_hit() -> None:
    rule = parse_rule("drop-ack")
    assert not rule.consumed
    hits(rule, produce())
    assert (rule.consumed, rule.spent) == (True, False)


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("api=produce", True),
        ("api=0", True),
        ("api=Fetch", False),
        ("client-id=ap*", True),
        ("client_id=other", False),
        ("transactional_id=tx-*", True),
        ("transactional_id=ty", False),
        ("group=g", False),
        ("topic=orders", True),
        ("topic=pay*,partition=2", True),
        ("topic=pay*,partition=0", False),
        ("partition=0", True),
        ("connection=3", True),
        ("connection=4", False),
    ],
)
def test_every_field_that_is_given_has_to_match(text: str, met: bool) -> None:
    subject = produce(("orders", 0), ("payments", 2), connection=3, transactional_id="tx-1")
    assert hits(parse_rule(f"drop-ack:{text}"), subject) == [met]


def test_what_is_not_about_requests_hits_none() -> None:
    for text in ("refuse-connection", "disk-full", "pause:step=marked", "crash:step=prepared"):
        assert hits(parse_rule(text), produce(("t", 0))) == [False]


def test_a_step_is_hit_by_name_id_and_place() -> None:
    rule = parse_rule("pause:step=marker,transactional_id=tx,topic=b")
    assert not rule.hits_step("marker", "tx", "a", 0)
    assert not rule.hits_step("marked", "tx", "b", 0)
    assert not rule.hits_step("marker", "ty", "b", 0)
    assert rule.hits_step("marker", "tx", "b", 0)


def test_json_holds_what_was_given_and_what_was_counted() -> None:
    rule = make_rule({"action": "error", "api": "END_TXN", "code": 51, "times": 1, "name": "late"})
    assert rule.code is ErrorCode.CONCURRENT_TRANSACTIONS
    as_json = rule.to_json()
    assert as_json == {
        "action": "error",
        "api": "END_TXN",
        "code": "CONCURRENT_TRANSACTIONS",
        "times": 1,
        "name": "late",
        "seen": 0,
        "hits": 0,
        "consumed": False,
    }
    again = make_rule({name: value for name, value in as_json.items() if name not in {"seen", "hits", "consumed"}})
    assert again == rule


def test_every_action_says_what_it_does() -> None:
    for action in FaultAction:
        needs = {"ms": 1, "bytes": 1, "code": "UNKNOWN_SERVER_ERROR", "step": "marked"}
        rule = make_rule({"action": action.value, **needs})
        assert str(rule).startswith(action.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lose", "unknown fault 'lose'; use one of drop-request, drop-ack"),
        ("drop-ack:api=Nothing", "no API 'Nothing'"),
        ("drop-ack:share=2", "share must be between 0 and 1"),
        ("drop-ack:share=x", "could not convert"),
        ("throttle:ms=2147483648", "ms must be at most 2147483647"),
        ("drop-ack:seed=1.5", "invalid literal"),
        ("drop-ack:shares=1", "unknown shares; known are api, client_id"),
        ("drop-ack:times=-1", "times must not be negative"),
        ("error:api=Produce", "code=… is required"),
        ("error:code=OOPS", "no error code 'OOPS'"),
        ("delay", "ms=… is required"),
        ("pause:step=nowhere", "step must be one of prepared, marker, marked"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_is_expected(text: str, says: str) -> None:
    with pytest.raises(FaultSyntax, match=says):
        parse_rule(text)
