from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest
from tests.support.quota_calls import ALICE, ALICES_APP, quota, quotas_of, set_quota
from tests.support.running_broker import RunningBroker


def test_quotas_survive_a_kill(broker: RunningBroker) -> None:
    with broker.client() as client:
        set_quota(client, ALICES_APP, producer_byte_rate=1024.0, request_percentage=12.5)
        set_quota(client, ALICES_APP, request_percentage=None)
    broker.kill()
    broker.start()
    with broker.client() as client:
        assert quotas_of(client, ALICES_APP) == {"producer_byte_rate": 1024.0}


def test_each_entity_has_its_own_result(client: Client) -> None:
    for version in (0, 1):
        answer = client.call(
            AlterClientQuotasRequest([quota(ALICES_APP, consumer_byte_rate=5.0), quota(ALICE, no_such=1.0)]), version=version
        )
        fine, wrong = answer.entries
        assert (fine.error_code, fine.error_message) == (0, None)
        assert (wrong.error_code, wrong.error_message) == (ErrorCode.INVALID_REQUEST, "Invalid configuration key no_such")
        assert [(part.entity_type, part.entity_name) for part in wrong.entity] == list(ALICE)
    assert quotas_of(client, ALICE) == {}


def test_validate_only_quotas_are_checked_and_not_stored(client: Client) -> None:
    entries = [quota(ALICE, consumer_byte_rate=5.0), quota(ALICES_APP, consumer_byte_rate=-5.0)]
    answer = client.call(AlterClientQuotasRequest(entries, validate_only=True))
    assert [each.error_code for each in answer.entries] == [0, ErrorCode.INVALID_REQUEST]
    assert quotas_of(client, ALICE) == {}
