from __future__ import annotations

import pytest

from ottla.broker.api import k63_broker_heartbeat
from ottla.broker.controller.broker_sessions import BrokerIdAndEpoch
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k63_broker_heartbeat import BrokerHeartbeatRequest
from tests.support.coroutine_tests import played_by
from tests.support.owned_cluster import OwnedCluster, run_owned


@played_by(run_owned, 1)
async def test_above_a_maximum_only_a_registered_broker_gets_a_heartbeat_session(
    cluster: OwnedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(k63_broker_heartbeat, "SESSIONS_MAX", 2)
    state = cluster.controller_host.running.role.active.state
    registered = next(iter(state.image.brokers.values()))
    for broker_id, epoch in [(76, 1), (77, 1), (registered.broker_id, registered.epoch + 1)]:
        answer = await cluster.ask_controller(BrokerHeartbeatRequest(broker_id, epoch, 0, False, False))
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert state.sessions.is_valid(BrokerIdAndEpoch(broker_id, epoch), cluster.clock.mono_ms()) == (broker_id == 76)
    state.sessions.forget(session := BrokerIdAndEpoch(registered.broker_id, registered.epoch))
    assert (await cluster.ask_controller(BrokerHeartbeatRequest(*session, 0, False, False))).error_code == 0
    assert state.sessions.is_valid(session, cluster.clock.mono_ms())
