from __future__ import annotations

import pytest

from ottla.broker.core.acl import Operation, Pattern, Resource
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.k30_create_acls import AclCreation
from tests.support.access import GUARDED, acl, allow, ann, bob, create_acls, of_cluster
from tests.support.running_broker import RunningBroker
from tests.support.topic_calls import create
from tests.wire.test_k29_describe_acls import describe

WITH_AUTHORIZER = pytest.mark.broker_settings(GUARDED)
READ_A = acl(Resource.TOPIC, "a", Operation.READ)


def sees(client: Client, name: str = "a") -> bool:
    (topic,) = client.call(MetadataRequest([MetadataRequestTopic(name=name)], False), 9).topics
    return bool(topic.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_without_an_authorizer_create_is_security_disabled(client: Client, version: int) -> None:
    (result,) = create_acls(client, READ_A, version=version)
    assert (result.error_code, result.error_message) == (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")


@WITH_AUTHORIZER
@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_acl_applies_to_the_next_request_and_survives_a_crash(broker: RunningBroker, version: int) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        assert not sees(client)
        (result,) = create_acls(admin, READ_A, version=version)
        assert (result.error_code, result.error_message) == (0, "")
        assert sees(client)
    broker.restart(kill=True)
    with ann(broker) as client:
        assert sees(client)


@WITH_AUTHORIZER
def test_an_invalid_acl_is_rejected_alone_and_duplicates_are_not_created(broker: RunningBroker) -> None:
    wrong = [
        (acl(Resource.CLUSTER, "other", Operation.ALTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(Resource.TOPIC, "", Operation.READ), "Invalid empty resource name"),
        (
            acl(Resource.TOPIC, "a", Operation.READ, principal="ann"),
            "Could not parse principal from `ann` (no colon is present separating the principal type from the principal name)",
        ),
    ]
    with bob(broker) as client:
        results = create_acls(client, READ_A, *(each for each, _ in wrong), READ_A)
        assert [(result.error_code, result.error_message) for result in results[1:-1]] == [
            (ErrorCode.INVALID_REQUEST, text) for _, text in wrong
        ]
        assert results[0].error_code == results[-1].error_code == 0
        assert [len(each.acls) for each in describe(client).resources] == [1]


@WITH_AUTHORIZER
def test_creating_acls_requires_alter_on_the_cluster(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        assert create_acls(client, READ_A)[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        allow(admin, of_cluster(Operation.ALTER))
        assert create_acls(client, READ_A)[0].error_code == 0


@WITH_AUTHORIZER
@pytest.mark.parametrize(
    "creation", [AclCreation(1, "a", 3, "User:a", "*", 3, 3), acl(Resource.TOPIC, "a", Operation.READ, pattern=Pattern.MATCH)]
)
def test_an_acl_with_any_fails_the_whole_request_as_in_kafka(broker: RunningBroker, creation: AclCreation) -> None:
    with bob(broker) as client:
        assert [result.error_code for result in create_acls(client, READ_A, creation)] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2


@WITH_AUTHORIZER
def test_an_acl_with_an_unknown_part_closes_the_connection(broker: RunningBroker) -> None:
    with bob(broker) as client, pytest.raises(ConnectionError):
        create_acls(client, AclCreation(0, "a", 3, "User:a", "*", 3, 3))


@WITH_AUTHORIZER
def test_an_acl_of_4_4_can_name_an_address_range(broker: RunningBroker) -> None:
    with bob(broker) as admin, ann(broker) as client:
        create(admin, "a")
        for host, code in (("", ErrorCode.INVALID_REQUEST), ("127.0.0.0/99", ErrorCode.INVALID_REQUEST), ("10.0.0.0/8", ErrorCode.NONE)):
            (result,) = create_acls(admin, acl(Resource.TOPIC, "a", Operation.READ, host=host))
            assert result.error_code == code
        assert not sees(client)
        create_acls(admin, acl(Resource.TOPIC, "a", Operation.READ, host="127.0.0.0/8"))
        assert sees(client)
