from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from tests.support.group_calls import commit, find_coordinator, stable_member
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create


@pytest.fixture(autouse=True)
def _groups(client: Client) -> None:
    create(client, "t")
    find_coordinator(client)
    stable_member(client)
    assert commit(client, 1, group_id="only offsets") == 0


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed_including_those_that_only_store_offsets(client: Client, version: int) -> None:
    groups = client.call(ListGroupsRequest(), version=version).groups
    state = version >= 4
    type_ = "classic" if version >= 5 else ""
    assert sorted((one.group_id, one.protocol_type, one.group_state, one.group_type) for one in groups) == [
        ("g", "consumer", "Stable" if state else "", type_),
        ("only offsets", "", "Empty" if state else "", type_),
    ]


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        (["stable"], [], ["g"]),
        (["Empty", "Dead"], [], ["only offsets"]),
        ([], ["CLASSIC"], ["g", "only offsets"]),
        (["Stable"], ["classic"], ["g"]),
        ([], ["consumer"], []),
        (["no such state"], [], []),
        ([" \tempty\n"], [], ["only offsets"]),
        ([], [" classic"], []),
    ],
)
def test_filters_ignore_case_and_spaces_around_states_and_unknown_names_match_nothing(
    client: Client, states: list[str], types: list[str], found: list[str]
) -> None:
    assert sorted(one.group_id for one in client.call(ListGroupsRequest(states, types), version=5).groups) == found


def test_a_list_that_is_made_in_several_turns_is_complete(client: Client) -> None:
    names = {f"g-{number}" for number in range(250)}
    assert {commit(client, number, group_id=name) for number, name in enumerate(names)} == {0}
    assert {one.group_id for one in client.call(ListGroupsRequest(), version=5).groups} == names | {"g", "only offsets"}


@pytest.mark.parametrize("kill", [False, True])
def test_groups_are_listed_after_a_restart(broker: RunningBroker, kill: bool) -> None:
    broker.restart(kill=kill)
    with broker.client() as again:
        groups = again.call(ListGroupsRequest(), version=5).groups
        assert sorted((one.group_id, one.group_state) for one in groups) == [("g", "Stable"), ("only offsets", "Empty")]
