"""The engine of fault rules: adding and removing rules, releasing held requests, and finding the rules that no request met."""

from __future__ import annotations

import pytest

from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.faults.subject import Subject
from ottla.protocol.api_keys import ApiKey

END = Subject(ApiKey.END_TXN, "app", 1, {"tx"})


def test_engine_is_inactive_without_rules() -> None:
    faults = Faults()
    assert not faults.active
    faults.add(parse_rule("drop-ack:name=lost"))
    assert faults.active
    faults.remove("lost")
    assert not faults.active


def test_every_rule_counts_the_request() -> None:
    faults = Faults([parse_rule("drop-ack"), parse_rule("drop-ack:api=Fetch"), parse_rule("hold-response")])
    assert [rule.name for rule in faults.rules_hitting(END)] == ["drop-ack-1", "hold-response-3"]
    assert faults.report() == [
        "drop-ack:name=drop-ack-1: 1 of 1 hit",
        "drop-ack:api=FETCH,name=drop-ack-2: 0 of 0 hit",
        "hold-response:name=hold-response-3: 1 of 1 hit",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("error:code=NOT_LEADER_OR_FOLLOWER", "error:code=REQUEST_TIMED_OUT"),
        ("drop-request", "drop-ack"),
        ("duplicate", "drop-request"),
        ("late-request", "swallow"),
        ("drop-ack", "cut-response"),
    ],
)
def test_two_mutually_exclusive_rules_apply_to_different_requests(first: str, second: str) -> None:
    for after in (0, 1):
        faults = Faults([parse_rule(first), parse_rule(second)])
        one, other = faults.rules
        one.times, other.times, other.after = 1, 1, after
        assert [faults.rules_hitting(END) for _ in range(3)] == [[one], [other], []]


def test_rule_names_are_unique() -> None:
    faults = Faults([parse_rule("drop-ack:name=lost")])
    with pytest.raises(ValueError, match="there is a fault 'lost' already"):
        faults.add(parse_rule("swallow:name=lost"))
    with pytest.raises(KeyError, match="there is no fault 'last'; loaded: lost"):
        faults.remove("last")


def test_generated_rule_name_does_not_collide() -> None:
    faults = Faults([parse_rule("drop-ack:name=drop-ack-1"), parse_rule("drop-ack")])
    assert [rule.name for rule in faults.rules] == ["drop-ack-1", "drop-ack-2"]


def test_assert_consumed_names_rules_that_were_not_hit() -> None:
    faults = Faults([parse_rule("drop-ack:times=2"), parse_rule("hold-response")])
    faults.rules_hitting(END)
    with pytest.raises(AssertionError, match=r"drop-ack:times=2,name=drop-ack-1: 1 of 1 hit$"):
        faults.assert_consumed()
    faults.rules_hitting(END)
    faults.assert_consumed()


def test_released_steps_continue_in_their_order() -> None:
    faults = Faults([parse_rule("hold-request:name=h"), parse_rule("pause:step=marked,name=p")])
    log: list[str] = []
    faults.hold(faults.get("h"), "first", lambda: log.append("first"))
    assert faults.stops_at("marked", "tx", lambda: log.append("step"))
    faults.hold(faults.get("h"), "second", lambda: log.append("second"))
    assert [held.what for held in faults.held] == ["first", "marked of transaction tx", "second"]
    assert faults.release("h") == 2
    assert log == ["first", "second"]
    assert faults.release() == 1
    assert log == ["first", "second", "step"]


def test_held_step_that_is_asked_again_is_not_counted_again() -> None:
    faults = Faults([parse_rule("pause:step=marker,times=1")])
    stops = [faults.stops_at("marker", "tx", lambda: None, "a", 0) for _ in range(3)]
    assert stops == [True, True, True]
    assert len(faults.held) == 1
    faults.release()
    assert not faults.stops_at("marker", "tx", lambda: None, "a", 0)


def test_crash_rule_never_continues_the_step() -> None:
    crashes: list[str] = []
    faults = Faults([parse_rule("crash:step=prepared,times=1")], on_crash=lambda: crashes.append("now"))
    assert faults.stops_at("prepared", "tx", lambda: crashes.append("went on"))
    assert faults.release() == 0
    assert crashes == ["now"]


def test_removing_a_rule_releases_what_it_held() -> None:
    faults = Faults([parse_rule("hold-request:name=h")])
    log: list[str] = []
    faults.hold(faults.get("h"), "it", lambda: log.append("on"))
    faults.remove("h")
    assert log == ["on"]
    assert not faults.active


def test_refuse_connection_rule_applies_the_given_number_of_times() -> None:
    faults = Faults([parse_rule("refuse-connection:after=1,times=1")])
    assert [faults.refuses_connection() for _ in range(3)] == [False, True, False]


def test_an_observer_sees_every_exchange() -> None:
    faults = Faults()
    seen: list[Exchange] = []
    faults.observe(seen.append)
    assert faults.active
    faults.notify_observers(Exchange(END, 0, 5, None, None, seen=True))
    assert [each.subject for each in seen] == [END]


def test_engine_is_inactive_after_the_last_observer_left() -> None:
    faults = Faults()
    seen: list[Exchange] = []
    observer = seen.append
    faults.observe(observer)
    faults.stop_observing(observer)
    assert not faults.active
    faults.notify_observers(Exchange(END, 0, 5, None, None, seen=True))
    assert seen == []


def test_spared_client_is_hit_only_by_rules_that_name_it_and_is_not_counted() -> None:
    faults = Faults([parse_rule("drop-ack:name=lost")])
    faults.exempt_client_ids = frozenset({"examiner"})
    assert faults.rules_hitting(Subject(ApiKey.PRODUCE, "examiner", 1)) == []
    assert faults.get("lost").seen == 0
    assert [rule.name for rule in faults.rules_hitting(END)] == ["lost"]
    faults.add(parse_rule("drop-request:client_id=exam*,name=meant"))
    assert [rule.name for rule in faults.rules_hitting(Subject(ApiKey.PRODUCE, "examiner", 1))] == ["meant"]
