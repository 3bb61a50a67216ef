"""The engine of fault rules: adding and removing rules, releasing held requests, and finding the rules that no request met."""

from __future__ import annotations

import pytest

from ottla.broker.faults.engine import Exchange, Faults
from ottla.broker.faults.rules import parse_rule
from ottla.broker.faults.subject import Subject
from ottla.protocol.api_keys import ApiKey

END = Subject(ApiKey.END_TXN, "app", 1, {"tx"})


def test_without_a_rule_nothing_is_asked() -> None:
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
def test_of_two_rules_that_exclude_each_other_each_has_its_own_request(first: str, second: str) -> None:
    for after in (0, 1):
        faults = Faults([parse_rule(first), parse_rule(second)])
        one, other = faults.rules
        one.times, other.times, other.after = 1, 1, after
        assert [faults.rules_hitting(END) for _ in range(3)] == [[one], [other], []]


def test_a_name_belongs_to_one_rule() -> None:
    faults = Faults([parse_rule("drop-ack:name=lost")])
    with pytest.raises(ValueError, match="there is a fault 'lost' already"):
        faults.add(parse_rule("swallow:name=lost"))
    with pytest.raises(KeyError, match="there is no fault 'last'; loaded: lost"):
        faults.remove("last")


def test_a_name_that_is_made_up_is_nobody_elses() -> None:
    faults = Faults([parse_rule("drop-ack:name=drop-ack-1"), parse_rule("drop-ack")])
    assert [rule.name for rule in faults.rules] == ["drop-ack-1", "drop-ack-2"]


def test_what_was_not_met_is_named() -> None:
    faults = Faults([parse_rule("drop-ack:times=2"), parse_rule("hold-response")])
    faults.rules_hitting(END)
    with pytest.raises(AssertionError, match=r"drop-ack:times=2,name=drop-ack-1: 1 of 1 hit$"):
        faults.assert_consumed()
    faults.rules_hitting(END)
    faults.assert_consumed()


def test_what_is_held_goes_on_in_its_order_when_it_is_released() -> None:
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


def test_a_step_that_is_held_is_asked_again_without_being_counted() -> None:
    faults = Faults([parse_rule("pause:step=marker,times=1")])
    stops = [faults.stops_at("marker", "tx", lambda: None, "a", 0) for _ in range(3)]
    assert stops == [True, True, True]
    assert len(faults.held) == 1
    faults.release()
    assert not faults.stops_at("marker", "tx", lambda: None, "a", 0)


def test_a_crash_at_a_step_never_goes_on() -> None:
    crashes: list[str] = []
    faults = Faults([parse_rule("crash:step=prepared,times=1")], on_crash=lambda: crashes.append("now"))
    assert faults.stops_at("prepared", "tx", lambda: crashes.append("went on"))
    assert faults.release() == 0
    assert crashes == ["now"]


def test_a_removed_rule_lets_go_what_it_held() -> None:
    faults = Faults([parse_rule("hold-request:name=h")])
    log: list[str] = []
    faults.hold(faults.get("h"), "it", lambda: log.append("on"))
    faults.remove("h")
    assert log == ["on"]
    assert not faults.active


def test_connections_are_refused_as_often_as_said() -> None:
    faults = Faults([parse_rule("refuse-connection:after=1,times=1")])
    assert [faults.refuses_connection() for _ in range(3)] == [False, True, False]


def test_an_observer_sees_every_exchange() -> None:
    faults = Faults()
    seen: list[Exchange] = []
    faults.observe(seen.append)
    assert faults.active
    faults.notify_observers(Exchange(END, 0, 5, None, None, seen=True))
    assert [each.subject for each in seen] == [END]


def test_after_the_last_observer_has_left_requests_need_not_ask() -> None:
    faults = Faults()
    seen: list[Exchange] = []
    observer = seen.append
    faults.observe(observer)
    faults.stop_observing(observer)
    assert not faults.active
    faults.notify_observers(Exchange(END, 0, 5, None, None, seen=True))
    assert seen == []


def test_no_rule_without_a_client_id_hits_or_counts_requests_of_an_exempt_client() -> None:
    faults = Faults([parse_rule("drop-ack:name=lost")])
    faults.exempt_client_ids = frozenset({"examiner"})
    assert faults.rules_hitting(Subject(ApiKey.PRODUCE, "examiner", 1)) == []
    assert faults.get("lost").seen == 0
    assert [rule.name for rule in faults.rules_hitting(END)] == ["lost"]
    faults.add(parse_rule("drop-request:client_id=exam*,name=meant"))
    assert [rule.name for rule in faults.rules_hitting(Subject(ApiKey.PRODUCE, "examiner", 1))] == ["meant"]
