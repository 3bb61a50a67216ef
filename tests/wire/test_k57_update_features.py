from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.k57_update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.running_broker import RunningBroker


def test_a_changed_level_is_returned_and_stored(broker: RunningBroker) -> None:
    def level(client: Client) -> int:
        response = client.call(ApiVersionsRequest("x", "1"), 4)
        return {each.name: each.max_version_level for each in response.finalized_features}["transaction.version"]

    with broker.client() as client:
        answer = client.call(UpdateFeaturesRequest(1_000, [FeatureUpdateKey("transaction.version", 1, upgrade_type=2)]))
        assert answer.error_code == 0
        assert level(client) == 1
    broker.restart()
    with broker.client() as client:
        assert level(client) == 1


def test_an_unknown_level_is_rejected(client: Client) -> None:
    answer = client.call(UpdateFeaturesRequest(1_000, [FeatureUpdateKey("share.version", 3)]))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
