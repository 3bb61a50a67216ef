from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Permission, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.access import ANYTHING, GUARDED, acl, allow, ann, bob, delete_all_acls
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.wire.test_k29_describe_acls import describe
from tests.wire.test_k30_create_acls import READ_A, sees

WITH_AUTHORIZER = pytest.mark.broker_settings(GUARDED)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_delete_is_security_disabled(client: Client, version: int) -> None:
    (result,) = delete_all_acls(client, version).filter_results
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


@WITH_AUTHORIZER
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_deleted_acl_applies_to_no_later_request_and_stays_deleted_after_a_crash(broker: RunningBroker, version: int) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        allow(admin, READ_A)
        assert sees(client)
        (result,) = delete_all_acls(admin, version).filter_results
        (found,) = result.matching_acls
        assert (found.error_code, found.error_message) == (0, None)
        assert (found.resource_name, found.principal, found.operation) == ("a", "User:ann", Operation.READ)
        assert not sees(client)
    broker.restart(kill=True)
    with bob(broker) as admin, ann(broker) as client:
        assert not sees(client)
        assert describe(admin).resources == []


@WITH_AUTHORIZER
def test_an_acl_that_matches_two_filters_is_returned_for_both(broker: RunningBroker) -> None:
    with bob(broker) as client:
        allow(client, READ_A, acl(Resource.GROUP, "g", Operation.READ))
        topics = DeleteAclsFilter(Resource.TOPIC, None, 1, None, None, Operation.ANY, Permission.ANY)
        nothing = DeleteAclsFilter(99, None, 1, None, None, Operation.ANY, Permission.ANY)
        results = client.call(DeleteAclsRequest([topics, nothing, ANYTHING]), 3).filter_results
    assert [(result.error_code, len(result.matching_acls)) for result in results] == [(0, 1), (ErrorCode.INVALID_REQUEST, 0), (0, 2)]


@WITH_AUTHORIZER
def test_deleting_acls_requires_alter_on_the_cluster(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        allow(admin, READ_A)
        (result,) = delete_all_acls(client).filter_results
        assert (result.error_code, result.matching_acls) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        assert len(describe(admin).resources) == 1
