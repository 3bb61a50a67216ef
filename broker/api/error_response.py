"""The response that rejects a whole request, as Kafka's `AbstractRequest.getErrorResponse` makes it.

The general rule is in `ottla.broker.faults.responses.refusal`: the response repeats the request's elements, each with the error code.
Kafka's request classes differ from it in two ways: some responses also have an error message, and some fields have a fixed value (often an
empty array). The tables here list both.
`tests/golden/test_error_responses.py` compares every API in every version with Kafka's classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ottla.broker.faults.responses import refusal
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.error_codes import ErrorCode

TEXTS: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.ILLEGAL_SASL_STATE: "Request is not valid given the current SASL state.",
}
"""Kafka's default messages of the error codes with which whole requests are rejected (KAFKA Errors.message)."""
_TEXT_OF_THE_EXCEPTION: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.CREATE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
_TEXT_OF_THE_CODE: Final = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.READ_SHARE_GROUP_STATE,
        ApiKey.WRITE_SHARE_GROUP_STATE,
        ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
_VALUES: Final[Sequence[tuple[ApiKey, int, str, object]]] = (
    (ApiKey.PRODUCE, 0, "responses.partition_responses.base_offset", -1),
    (ApiKey.FETCH, 0, "responses.partitions.high_watermark", -1),
    (ApiKey.FETCH, 0, "responses.partitions.records", b""),
    (ApiKey.FETCH, 13, "responses", []),
    (ApiKey.OFFSET_FETCH, 0, "topics.partitions.committed_offset", -1),
    (ApiKey.OFFSET_FETCH, 2, "topics", []),
    (ApiKey.OFFSET_FETCH, 8, "groups.topics", []),
    (ApiKey.FIND_COORDINATOR, 0, "node_id", -1),
    (ApiKey.FIND_COORDINATOR, 0, "port", -1),
    (ApiKey.FIND_COORDINATOR, 4, "coordinators.node_id", -1),
    (ApiKey.FIND_COORDINATOR, 4, "coordinators.port", -1),
    (ApiKey.JOIN_GROUP, 7, "protocol_name", None),
    (ApiKey.LEAVE_GROUP, 0, "members", []),
    (ApiKey.CREATE_TOPICS, 0, "topics.configs", []),
    (ApiKey.DELETE_RECORDS, 0, "topics.partitions.low_watermark", -1),
    (ApiKey.INIT_PRODUCER_ID, 0, "producer_epoch", -1),
    (ApiKey.ADD_PARTITIONS_TO_TXN, 4, "results_by_transaction", []),
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "principal_type", "User"),
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "principal_name", "ANONYMOUS"),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, "token_requester_principal_type", "User"),
    (ApiKey.CREATE_DELEGATION_TOKEN, 3, "token_requester_principal_name", "ANONYMOUS"),
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "issue_timestamp_ms", -1),
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "expiry_timestamp_ms", -1),
    (ApiKey.CREATE_DELEGATION_TOKEN, 0, "max_timestamp_ms", -1),
    (ApiKey.OFFSET_DELETE, 0, "topics", []),
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, "entries", None),
    (ApiKey.ALTER_PARTITION, 0, "topics", []),
    (ApiKey.FETCH_SNAPSHOT, 0, "topics", []),
    (ApiKey.SHARE_FETCH, 0, "responses", []),
    (ApiKey.SHARE_ACKNOWLEDGE, 0, "responses", []),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, "active_tasks", None),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, "standby_tasks", None),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, "warmup_tasks", None),
    (ApiKey.STREAMS_GROUP_HEARTBEAT, 0, "partitions_by_user_endpoint", None),
)
"""Fields with a fixed value in a rejecting response, as (API, lowest response version in which the field gets the value, path of the field,
value). If the path leads through arrays, every element gets the value. The lists among the values are shared by all responses and must not
be changed.
"""


def error_response(api_key: int, version: int, request: Any, error: ErrorCode, text: str | None = None) -> Any:
    """Return the response of API `api_key` that rejects `request` with the code `error`, in the format of `version`.

    If this API's response has an error message, it is Kafka's default message of the code (`TEXTS`). `text` is used instead for a code
    without default message, and in those APIs in which Kafka sends the text of the exception.
    """
    key = ApiKey(api_key)
    response = refusal(key, request, error)
    if key is ApiKey.FETCH:
        response.session_id = request.session_id
    for of, since, path, value in _VALUES:
        if of is key and version >= since:
            *parents, last = path.split(".")
            for struct in _structs(response, parents):
                setattr(struct, last, value)
    if key in _TEXT_OF_THE_EXCEPTION or key in _TEXT_OF_THE_CODE:
        own = key in _TEXT_OF_THE_EXCEPTION and text is not None
        set_text(response, text if own else TEXTS.get(error, text))
    return response


def _structs(struct: Any, path: Sequence[str]) -> Iterable[Any]:
    if not path:
        return [struct]
    return [found for below in getattr(struct, path[0]) for found in _structs(below, path[1:])]


def set_text(struct: Any, text: str | None) -> None:
    """Set the error message of a response, and of every nested element that has such a field, to `text`."""
    for field in dataclasses.fields(struct):
        value = getattr(struct, field.name)
        if field.name == "error_message":
            struct.error_message = text
        elif isinstance(value, list):
            for each in value:
                if dataclasses.is_dataclass(each):
                    set_text(each, text)
