from __future__ import annotations

from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k80_add_raft_voter import AddRaftVoterRequest
from ottla.protocol.messages.quorum import Listener


def test_a_new_voter_is_rejected(client: Client) -> None:
    at = [Listener("CONTROLLER", "localhost", 1)]
    for version in (0, 1):
        assert client.call(AddRaftVoterRequest(None, 1_000, 2, b"d" * 16, at), version).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert client.call(AddRaftVoterRequest(None, 1_000, 1, b"d" * 16, at), version).error_code == ErrorCode.DUPLICATE_VOTER
