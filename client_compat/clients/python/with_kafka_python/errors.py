"""What an exception of kafka-python's says, in CONTROL.md's words."""

from __future__ import annotations

from kafka import errors
from kafka.errors import KafkaError

from client_compat.clients.control import Answer, Failure, kafka_name


def failure(error: BaseException) -> Failure | None:
    """kafka-python tells a broker's error by its number, and of every error whether it is retriable."""
    if not isinstance(error, KafkaError):
        return None
    name = kafka_name(getattr(error, "errno", None))
    return Failure(name or f"CLIENT:{type(error).__name__}", str(error), retriable=error.retriable)


def result(error: BaseException) -> Answer:
    """The result of a record that failed."""
    return {"error": (failure(error) or Failure(f"CLIENT:{type(error).__name__}", str(error))).as_json()}


def of_code(code: int, message: str | None = None) -> Answer | None:
    """Null, or the error of the number."""
    if not code:
        return None
    return of_class(errors.for_code(code), message)


def of_class(kind: type[BaseException], message: str | None = None) -> Answer | None:
    """Null for the client's class NoError, else what the class says."""
    if kind is errors.NoError:
        return None
    told = failure(kind(message) if message else kind())
    assert told is not None, "classes of kafka.errors are KafkaErrors"
    return told.as_json()
