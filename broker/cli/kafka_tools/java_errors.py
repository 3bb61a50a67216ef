"""Error texts of Kafka's tools where they print a Java exception: its class and its default message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.broker.cli.cluster import ErrorResponse, name_of
from ottla.protocol.error_codes import ErrorCode

_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ("UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
    ErrorCode.INVALID_GROUP_ID: ("InvalidGroupIdException", "The group id is invalid."),
    ErrorCode.UNKNOWN_MEMBER_ID: ("UnknownMemberIdException", "The coordinator is not aware of this member."),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TopicAuthorizationException", "Topic authorization failed."),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GroupAuthorizationException", "Group authorization failed."),
    ErrorCode.NON_EMPTY_GROUP: ("GroupNotEmptyException", "The group is not empty."),
    ErrorCode.GROUP_ID_NOT_FOUND: ("GroupIdNotFoundException", "The group id does not exist."),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: (
        "GroupSubscribedToTopicException",
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.",
    ),
}
"""Exception class and default message of each error code, as in Kafka's `Errors`."""


def error_message(code: int) -> str:
    """Return Kafka's default message for an error code; for a code that is not in `_ERRORS`, the code's name."""
    return _ERRORS[code][1] if code in _ERRORS else name_of(code)


def java_exception(code: int, message: str | None = None) -> str:
    """Return the name of the Java exception class of an error code, and `message`, by default Kafka's own message. For a code that is not
    in `_ERRORS`, return only `message`, by default the code's name."""
    if code not in _ERRORS:
        return message or name_of(code)
    return f"org.apache.kafka.common.errors.{_ERRORS[code][0]}: {message or error_message(code)}"


def java_exception_of(error: ErrorResponse) -> str:
    """Return the Java exception class for the error code of `error`, and the exception's text."""
    return java_exception(error.code, str(error))
