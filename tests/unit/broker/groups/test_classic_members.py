from __future__ import annotations

import pytest

from ottla.broker.groups.classic_members import ClassicMembers, JoinProtocol, Member


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


def members_of(*members: Member) -> ClassicMembers:
    made = ClassicMembers()
    for one in members:
        made.add(one)
    return made


def test_the_first_member_leads_and_the_next_one_follows_when_it_goes() -> None:
    made = members_of(member("a"), member("b"))
    assert made.leader_id == "a"
    made.remove("a")
    assert made.leader_id == "b"
    made.remove("b")
    assert made.leader_id is None


def test_removing_an_unknown_member_changes_nothing() -> None:
    made = members_of(member("a"))
    assert made.remove("z") is None
    assert made.leader_id == "a"


def test_removing_a_member_frees_its_instance_id() -> None:
    made = members_of(member("a", instance_id="i"))
    assert made.static_member_id("i") == "a"
    made.remove("a")
    assert made.static_member_id("i") is None


def test_two_members_cannot_have_one_instance_id() -> None:
    with pytest.raises(AssertionError):
        members_of(member("a", instance_id="i"), member("b", instance_id="i"))


def test_a_replaced_leaders_replacement_leads() -> None:
    made = members_of(member("a", instance_id="i"), member("b"))
    made.replace("a", member("a2", instance_id="i"))
    assert made.leader_id == "a2"
    assert made.static_member_id("i") == "a2"


def test_an_absent_leader_is_replaced_by_the_first_that_joined() -> None:
    made = members_of(member("a"), member("b"), member("c", joined=True))
    assert made.elect_joined_leader()
    assert made.leader_id == "c"


def test_no_leader_is_elected_without_a_joined_member() -> None:
    made = members_of(member("a"))
    assert not made.elect_joined_leader()
    assert made.leader_id == "a"


def test_a_protocol_is_supported_if_every_member_has_it() -> None:
    made = members_of(member("a", "x", "y"), member("b", "y", "z"))
    assert made.supports({"y"})
    assert not made.supports({"x", "z"})


def test_supported_protocols_follow_member_changes() -> None:
    made = members_of(member("a", "x", "y"), member("b", "y"))
    made.remove("b")
    assert made.supports({"x"})
    made.set_protocols(made["a"], (JoinProtocol("w", b""),))
    assert made.supports({"w"})
    assert not made.supports({"x"})


def test_a_protocol_named_twice_by_one_member_counts_once() -> None:
    made = members_of(member("a", "x", "x"), member("b", "y"))
    assert not made.supports({"x"})


def test_the_first_common_protocol_of_each_member_gets_its_vote() -> None:
    made = members_of(member("a", "x", "y"), member("b", "y", "x"), member("c", "z", "y", "x"))
    assert made.select_protocol() == "y"
