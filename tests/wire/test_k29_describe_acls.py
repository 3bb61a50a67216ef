from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Pattern, Permission, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tests.support.access import GUARDED, acl, allow, ann, bob, of_cluster
from tests.support.running_broker import RunningBroker

WITH_AUTHORIZER = pytest.mark.broker_settings(GUARDED)


def describe(client: Client, name: str | None = None, pattern: int = Pattern.ANY, version: int = 3, kind: int = 1) -> DescribeAclsResponse:
    request = DescribeAclsRequest(kind, name, pattern, None, None, Operation.ANY, Permission.ANY)
    answer: DescribeAclsResponse = client.call(request, version)
    return answer


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_describe_is_security_disabled(client: Client, version: int) -> None:
    answer = describe(client, version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")


@WITH_AUTHORIZER
@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_are_grouped_by_resource(broker: RunningBroker, version: int) -> None:
    with bob(broker) as client:
        allow(
            client,
            acl(Resource.TOPIC, "a", Operation.READ),
            acl(Resource.TOPIC, "a", Operation.WRITE, Permission.DENY, host="10.0.0.1"),
            acl(Resource.TOPIC, "a", Operation.READ, pattern=Pattern.PREFIXED),
        )
        found = describe(client, version=version)
    acls = {(each.resource_name, each.pattern_type): each.acls for each in found.resources}
    assert found.error_code == 0
    assert [(one.principal, one.host, one.operation, one.permission_type) for one in acls["a", Pattern.LITERAL]] == [
        ("User:ann", "*", Operation.READ, Permission.ALLOW),
        ("User:ann", "10.0.0.1", Operation.WRITE, Permission.DENY),
    ]
    assert len(acls["a", Pattern.PREFIXED]) == 1


@WITH_AUTHORIZER
def test_a_list_that_is_made_in_several_turns_has_each_resource_once(broker: RunningBroker) -> None:
    with bob(broker) as client:
        for host in ("10.0.0.1", "10.0.0.2"):
            allow(client, *(acl(Resource.TOPIC, f"t-{number}", Operation.READ, host=host) for number in range(130)))
        found = describe(client)
    assert {each.resource_name: len(each.acls) for each in found.resources} == {f"t-{number}": 2 for number in range(130)}
    assert len(found.resources) == 130


@WITH_AUTHORIZER
@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        (None, Pattern.ANY, {"ab", "a", "*"}),
        ("ab", Pattern.ANY, {"ab"}),
        ("ab", Pattern.MATCH, {"ab", "a", "*"}),
        ("ab", Pattern.LITERAL, {"ab"}),
        ("a", Pattern.LITERAL, set()),
        (None, Pattern.PREFIXED, {"a"}),
        ("b", Pattern.MATCH, {"*"}),
    ],
)
def test_a_filter_matches_by_pattern_type(broker: RunningBroker, name: str | None, pattern: int, found: set[str]) -> None:
    with bob(broker) as client:
        prefix = acl(Resource.TOPIC, "a", Operation.READ, pattern=Pattern.PREFIXED)
        allow(client, acl(Resource.TOPIC, "ab", Operation.READ), prefix, acl(Resource.TOPIC, "*", Operation.READ))
        assert {each.resource_name for each in describe(client, name, pattern).resources} == found


@WITH_AUTHORIZER
def test_describing_acls_requires_describe_on_the_cluster(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        answer = describe(client)
        assert (answer.error_code, answer.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        allow(admin, of_cluster(Operation.DESCRIBE))
        assert len(describe(client).resources) == 1


@WITH_AUTHORIZER
def test_a_filter_with_an_unknown_part_closes_the_connection(broker: RunningBroker) -> None:
    with bob(broker) as client, pytest.raises(ConnectionError):
        describe(client, kind=0)
