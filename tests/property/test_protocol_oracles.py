"""Every message in every version has the same bytes as in two independent implementations of Kafka's protocol, in both directions.

Gaps and errors of each library are listed here with the reason, and the lists are checked: each entry must be true, and nothing else may
be missing. OTTLA_ORACLE_EXAMPLES sets how many messages are made per (API, version), OTTLA_ORACLE_SEED which ones.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from ottla.protocol.codec import RequestHeader, decode_request, decode_response, encode_request, encode_response
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.registry import declared_keys, request_class, response_class
from ottla.protocol.schema import Message, decode, encode
from tests.support.message_strategies import messages
from tests.support.oracles import ORACLES, KafkaPython, Oracle

EXAMPLES = int(os.environ.get("OTTLA_ORACLE_EXAMPLES", "15"))
SEED = int(os.environ.get("OTTLA_ORACLE_SEED", "20260101"))

CLASSES = [find(key) for key in declared_keys() for find in (request_class, response_class)]
PAIRS = [(cls, version) for cls in CLASSES for version in range(cls.MIN_VERSION, cls.MAX_VERSION + 1)]
EVERY_VERSION = pytest.mark.parametrize(("cls", "version"), [pytest.param(*pair, id=f"{pair[0].__name__}-v{pair[1]}") for pair in PAIRS])

NOT_IN_KAFKA_PYTHON = (
    # The consumer protocol of KIP-848.
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    # Delegation tokens.
    "CreateDelegationToken",
    "RenewDelegationToken",
    "ExpireDelegationToken",
    "DescribeDelegationToken",
    # Clients' telemetry.
    "GetTelemetrySubscriptions",
    "PushTelemetry",
    # APIs between brokers and controllers, and of the tools that change the nodes of a cluster.
    "Vote",
    "BeginQuorumEpoch",
    "EndQuorumEpoch",
    "AlterPartition",
    "Envelope",
    "FetchSnapshot",
    "BrokerRegistration",
    "BrokerHeartbeat",
    "UnregisterBroker",
    "AllocateProducerIds",
    "ControllerRegistration",
    "AssignReplicasToDirs",
    "AddRaftVoter",
    "RemoveRaftVoter",
    "UpdateRaftVoter",
    # Share groups.
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "InitializeShareGroupState",
    "ReadShareGroupState",
    "WriteShareGroupState",
    "DeleteShareGroupState",
    "ReadShareGroupStateSummary",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    # Streams groups.
    "StreamsGroupHeartbeat",
    "StreamsGroupDescribe",
)
SINCE_KAFKA_4_4 = {
    "ApiVersions": 5,
    "DeleteGroups": 3,
    "StreamsGroupDescribe": 1,
    "StreamsGroupHeartbeat": 1,
    "StreamsGroupTopologyDescriptionUpdate": 0,
    "TxnOffsetCommit": 6,
    "UnregisterController": 0,
}
"""APIs and their first version that is newer than both libraries."""

LACKING = {
    (oracle.name, name + kind): first for oracle in ORACLES for name, first in SINCE_KAFKA_4_4.items() for kind in ("Request", "Response")
} | {("kafka-python", name + kind): 0 for name in NOT_IN_KAFKA_PYTHON for kind in ("Request", "Response")}
"""(library, message), and the first version that the library does not have."""


def misread(oracle: Oracle, msg: Message) -> bool:
    """kafka-python reads any ApiVersions response with an error as version 0, whatever its version (KIP-511 says so of one error only)."""
    return oracle.name == "kafka-python" and isinstance(msg, ApiVersionsResponse) and msg.error_code != ErrorCode.NONE


@EVERY_VERSION
@seed(SEED)
@settings(max_examples=EXAMPLES, database=None, phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_encoded_message_equals_the_bytes_of_both_libraries(cls: type[Message], version: int, data: st.DataObject) -> None:
    print(f"seed {SEED}")
    msg = data.draw(messages(cls, version))
    ours = encode(msg, version)
    assert decode(cls, ours, version) == msg
    for oracle in ORACLES:
        if not oracle.knows(cls, version):
            continue
        assert oracle.encode(msg, version) == ours, oracle.name
        if not misread(oracle, msg):
            assert oracle.decode(cls, ours, version) == msg, oracle.name


@EVERY_VERSION
def test_encoded_frame_has_the_same_header_as_both_libraries(cls: type[Message], version: int) -> None:
    msg, correlation_id = cls(), -0x12345678
    for client_id in (None, "", "größer", "x" * 200):
        if cls.__name__.endswith("Request"):
            frame = b"".join(encode_request(cls.API_KEY, version, correlation_id, client_id, msg))
            request = decode_request(frame[4:])
            assert request.header == RequestHeader(cls.API_KEY, version, correlation_id, client_id)
            assert request.body == msg
        else:
            frame = b"".join(encode_response(cls.API_KEY, version, correlation_id, msg))
            assert decode_response(cls.API_KEY, version, frame[4:]) == (correlation_id, msg)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        for oracle in ORACLES:
            if oracle.knows(cls, version):
                assert frame[4:] == oracle.header(cls, version, correlation_id, client_id) + encode(msg, version), oracle.name


def test_messages_missing_in_a_library_are_exactly_the_listed_ones() -> None:
    lacking = {(oracle.name, cls.__name__, version) for oracle in ORACLES for cls, version in PAIRS if not oracle.knows(cls, version)}
    listed = {
        (oracle.name, cls.__name__, version)
        for oracle in ORACLES
        for cls, version in PAIRS
        if version >= LACKING.get((oracle.name, cls.__name__), version + 1)
    }
    assert lacking == listed


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_kafka_python_still_misreads_a_refused_api_versions_response(version: int) -> None:
    msg = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[ApiVersion(1, 4, 18)], throttle_time_ms=7)
    try:
        theirs = KafkaPython().decode(ApiVersionsResponse, encode(msg, version), version)
    except Exception:  # noqa: BLE001 # whichever way it fails, it does not read the message
        return
    assert theirs != msg
