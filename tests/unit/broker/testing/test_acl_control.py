"""Users with roles that a test gives them, at a broker with an authorizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k03_metadata import MetadataRequest, MetadataRequestTopic
from tests.support.access import GUARDED, ann
from tests.support.running_broker import RunningBroker


def test_acl_control_allows_denies_and_removes_permissions(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", GUARDED) as broker, ann(broker) as client:

        def sees() -> bool:
            (topic,) = client.call(MetadataRequest([MetadataRequestTopic(name="orders")], False), 9).topics
            return bool(topic.error_code == 0)

        broker.topics.create("orders")
        assert not sees()
        broker.acls.allow("User:ann", "READ", topic="ord", prefixed=True)
        assert sees()
        broker.acls.deny("User:*", "DESCRIBE", topic="orders", host="127.0.0.1")
        assert not sees()
        broker.acls.reset()
        broker.acls.allow("User:ann", "ALL", topic="*")
        assert sees()
        with pytest.raises(Rejected) as caught:
            broker.acls.allow("ann", "READ", group="g")
        assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_acl_control_without_an_authorizer_names_the_missing_setting(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data") as broker, pytest.raises(RuntimeError, match=r"authorizer\.class\.name="):
        broker.acls.allow("User:ann", "READ", topic="orders")


def test_acl_without_effect_is_rejected(tmp_path: Path) -> None:
    with RunningBroker(tmp_path / "data", GUARDED) as broker:
        with pytest.raises(KeyError, match="there is no operation 'read'; use one of ALL, READ, WRITE"):
            broker.acls.allow("User:ann", "read", topic="orders")
        with pytest.raises(TypeError, match="one or more operations"):
            broker.acls.allow("User:ann", topic="orders")
        with pytest.raises(TypeError, match="not for tpoic"):
            broker.acls.deny("User:ann", "READ", tpoic="orders")
        with pytest.raises(TypeError, match="not for topic, group"):
            broker.acls.allow("User:ann", "READ", topic="orders", group="g")
        broker.acls.allow("User:ann", "TWO_PHASE_COMMIT", transactional_id="tx")
        broker.acls.allow("User:ann", "IDEMPOTENT_WRITE")
