from __future__ import annotations

import pytest

from ottla.broker.groups.roster import JoinProtocol, Member, Roster


def member(member_id: str, *protocols: str, instance_id: str | None = None, joined: bool = False) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1_000,
        session_timeout_ms=1_000,
        protocols=tuple(JoinProtocol(name, name.encode()) for name in protocols or ("range",)),
        awaiting_join=object() if joined else None,
    )


def roster(*members: Member) -> Roster:
    made = Roster()
    for one in members:
        made.add(one)
    return made


def test_the_first_member_leads_and_the_next_one_follows_when_it_goes() -> None:
    made = roster(member("a"), member("b"))
    assert made.leader_id == "a"
    made.remove("a")
    assert made.leader_id == "b"
    made.remove("b")
    assert made.leader_id is None


def test_removing_an_unknown_member_changes_nothing() -> None:
    made = roster(member("a"))
    assert made.remove("z") is None
    assert made.leader_id == "a"


def test_an_instance_id_is_free_again_when_its_member_goes() -> None:
    made = roster(member("a", instance_id="i"))
    assert made.static_member_id("i") == "a"
    made.remove("a")
    assert made.static_member_id("i") is None


def test_one_instance_id_cannot_name_two_members() -> None:
    with pytest.raises(AssertionError):
        roster(member("a", instance_id="i"), member("b", instance_id="i"))


def test_a_replaced_leader_hands_the_leadership_to_its_replacement() -> None:
    made = roster(member("a", instance_id="i"), member("b"))
    made.replace("a", member("a2", instance_id="i"))
    assert made.leader_id == "a2"
    assert made.static_member_id("i") == "a2"


def test_a_leader_that_did_not_join_gives_way_to_the_first_that_did() -> None:
    made = roster(member("a"), member("b"), member("c", joined=True))
    assert made.elect_joined_leader()
    assert made.leader_id == "c"


def test_nobody_is_elected_when_nobody_joined() -> None:
    made = roster(member("a"))
    assert not made.elect_joined_leader()
    assert made.leader_id == "a"


def test_a_protocol_is_supported_when_everyone_speaks_it() -> None:
    made = roster(member("a", "x", "y"), member("b", "y", "z"))
    assert made.supports({"y"})
    assert not made.supports({"x", "z"})


def test_support_follows_members_that_change_and_go() -> None:
    made = roster(member("a", "x", "y"), member("b", "y"))
    made.remove("b")
    assert made.supports({"x"})
    made.set_protocols(made["a"], (JoinProtocol("w", b""),))
    assert made.supports({"w"})
    assert not made.supports({"x"})


def test_a_protocol_named_twice_by_one_member_counts_once() -> None:
    made = roster(member("a", "x", "x"), member("b", "y"))
    assert not made.supports({"x"})


def test_the_first_common_protocol_of_each_member_gets_its_vote() -> None:
    made = roster(member("a", "x", "y"), member("b", "y", "x"), member("c", "z", "y", "x"))
    assert made.select_protocol() == "y"
