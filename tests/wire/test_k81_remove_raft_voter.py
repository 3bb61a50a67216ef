from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k81_remove_raft_voter import RemoveRaftVoterRequest
from tests.support.running_broker import RunningBroker


def test_the_removal_of_a_voter_is_rejected(broker: RunningBroker, client: Client) -> None:
    assert client.call(RemoveRaftVoterRequest(None, 2, b"d" * 16)).error_code == ErrorCode.VOTER_NOT_FOUND
    me = broker.broker.log_dir.meta.directory_id
    assert client.call(RemoveRaftVoterRequest(None, 1, me)).error_code == ErrorCode.UNSUPPORTED_VERSION
