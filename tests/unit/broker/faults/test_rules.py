"""Rules of scripted faults: their syntax, what they match, how often."""

from __future__ import annotations

import pytest

from ottla.broker.faults.rules import FaultAction, FaultRule, FaultSyntax, make_rule, parse_filter, parse_rule
from ottla.broker.faults.subject import Subject
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

NEEDED = {
    "delay": {"ms": 1},
    "delay-request": {"ms": 1},
    "throttle": {"ms": 1},
    "stale-metadata": {"ms": 1},
    "slow": {"bytes": 1},
    "error": {"code": "UNKNOWN_SERVER_ERROR"},
    "error-after": {"code": "UNKNOWN_SERVER_ERROR"},
    "pause": {"step": "marked"},
    "crash": {"step": "marked"},
}


def produce(*partitions: tuple[str, int], client: str = "app", connection: int = 1, transactional_id: str = "") -> Subject:
    return Subject(ApiKey.PRODUCE, client, connection, {transactional_id} - {""}, set(), list(partitions))


def hits(rule: FaultRule, subject: Subject, times: int = 1) -> list[bool]:
    return [rule.hits_request(subject) for _ in range(times)]


def test_the_same_seed_hits_the_same_requests() -> None:
    def outcome(seed: int) -> list[bool]:
        return hits(parse_rule(f"drop-ack:api=Produce,share=0.3,seed={seed}"), produce(("t", 0)), 200)

    assert outcome(7) == outcome(7) != outcome(8)
    assert 30 < sum(outcome(7)) < 90


def test_rule_skips_the_after_count_and_is_spent_after_its_times() -> None:
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


def test_rules_for_connections_disks_and_steps_hit_no_request() -> None:
    for text in ("refuse-connection", "disk-full", "pause:step=marked", "crash:step=prepared"):
        assert hits(parse_rule(text), produce(("t", 0))) == [False]


def test_pause_rule_matches_step_transactional_id_and_topic() -> None:
    rule = parse_rule("pause:step=marker,transactional_id=tx,topic=b")
    assert not rule.hits_step("marker", "tx", "a", 0)
    assert not rule.hits_step("marked", "tx", "b", 0)
    assert not rule.hits_step("marker", "ty", "b", 0)
    assert rule.hits_step("marker", "tx", "b", 0)


def test_rule_round_trips_through_json_with_its_counts() -> None:
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


def test_text_of_a_rule_starts_with_its_action() -> None:
    for action in FaultAction:
        rule = make_rule({"action": action.value, **NEEDED.get(action.value, {})})
        assert str(rule).startswith(action.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lose", "unknown fault 'lose'; use one of drop-request, drop-ack"),
        ("drop-ack:api=Nothing", "no API 'Nothing'"),
        ("drop-ack:share=2", "share must be between 0 and 1"),
        ("drop-ack:share=x", "share must be a number, not 'x'"),
        ("throttle:ms=2147483648", "ms must be at most 2147483647"),
        ("drop-ack:seed=1.5", "seed must be a whole number, not '1.5'"),
        ("drop-ack:shares=1", "unknown shares; known are api, client_id"),
        ("drop-ack:times=-1", "times must not be negative"),
        ("drop-ack:times=0", "times must be at least 1"),
        ("drop-ack:connection=0", "connection must be at least 1"),
        ("drop-ack:partition=-1", "partition must not be negative"),
        ("drop-ack:api=Produce,topic", "'topic' is not of the form name=value"),
        ("drop-ack:topic=", "'topic=' is not of the form name=value"),
        ("drop-ack:topic=a,topic=b", "topic is given twice"),
        ("error:api=Produce", "code=… is required"),
        ("error:code=OOPS", "no error code 'OOPS'"),
        ("delay", "ms=… is required"),
        ("pause:step=nowhere", "step must be one of prepared, marker, marked"),
    ],
)
def test_unparsable_rule_is_rejected_with_the_expected_syntax(text: str, says: str) -> None:
    with pytest.raises(FaultSyntax, match=says):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("drop-ack:ms=3", "ms has no effect; it is a field of delay-request, delay, throttle, stale-metadata"),
        ("delay:ms=3,bytes=1", "bytes has no effect; it is a field of cut-response, slow"),
        ("drop-ack:step=marker", "step has no effect"),
        ("drop-ack:code=7", "code has no effect"),
        ("corrupt:records=2", "records has no effect; it is a field of redeliver"),
        ("refuse-connection:client_id=app", "client_id has no effect; such rules match no field"),
        ("disk-full:api=Produce", "api has no effect; such rules match partition, topic"),
        ("pause:step=marker,group=g", "group has no effect; such rules match partition, topic, transactional_id"),
        ("corrupt:api=Produce", "it changes responses to Fetch or ShareFetch only, not to Produce"),
        ("redeliver:api=Fetch", "it changes responses to OffsetFetch only"),
        ("drop-ack:api=SaslAuthenticate", "no rule and no log sees SaslAuthenticate"),
        ("drop-ack:api=Fetch,group=g", "group has no effect, because Fetch requests name none"),
        ("drop-ack:api=JoinGroup,topic=t", "topic has no effect, because JoinGroup requests name none"),
    ],
)
def test_rule_that_cannot_have_an_effect_is_rejected(text: str, says: str) -> None:
    with pytest.raises(FaultSyntax, match=says):
        parse_rule(text)


def test_filter_that_cannot_match_is_rejected() -> None:
    for text, says in (("api", "'api' is not of the form name=value"), ("api=Fetch,group=g", "a filter: group has no effect")):
        with pytest.raises(FaultSyntax, match=says):
            parse_filter(text)
