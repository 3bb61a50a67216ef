from __future__ import annotations

import pytest

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k16_list_groups import ListGroupsRequest
from ottla.protocol.messages.k42_delete_groups import DeleteGroupsRequest
from tests.support.group_calls import commit, fetch, find_coordinator, stable_member
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create


@pytest.fixture(autouse=True)
def _topic(client: Client) -> None:
    create(client, "t")
    find_coordinator(client)


@pytest.mark.parametrize("version", range(4))
def test_each_group_succeeds_or_fails_by_itself(client: Client, version: int) -> None:
    stable_member(client)
    assert commit(client, 1, group_id="empty") == 0
    results = client.call(DeleteGroupsRequest(["g", "empty", "nobody"]), version=version).results
    assert {one.group_id: one.error_code for one in results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "empty": 0,
        "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
    }


def test_a_deleted_group_and_its_offsets_stay_deleted_after_a_crash(broker: RunningBroker, client: Client) -> None:
    assert commit(client, 1) == 0
    client.call(DeleteGroupsRequest(["g"]), version=2)
    assert fetch(client)[0] == -1
    broker.restart(kill=True)
    with broker.client() as again:
        assert fetch(again)[0] == -1
        assert again.call(ListGroupsRequest(), version=5).groups == []


def test_a_group_that_is_named_twice_has_one_result(client: Client) -> None:
    assert commit(client, 1) == 0
    results = client.call(DeleteGroupsRequest(["g", "g"]), version=2).results
    assert [(one.group_id, one.error_code) for one in results] == [("g", 0)]
