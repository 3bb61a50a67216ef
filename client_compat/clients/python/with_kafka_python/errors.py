"""Translates kafka-python's exceptions to errors of the control protocol (CONTROL.md)."""

from __future__ import annotations

from kafka import errors
from kafka.errors import KafkaError

from client_compat.clients.control import Answer, Failure, kafka_name


def failure(error: BaseException) -> Failure | None:
    """Translate an exception of kafka-python to an error of the control protocol (CONTROL.md); return None for any other exception.
    kafka-python reports Kafka's error code and a retriable flag."""
    if not isinstance(error, KafkaError):
        return None
    name = kafka_name(getattr(error, "errno", None))
    return Failure(name or f"CLIENT:{type(error).__name__}", str(error), retriable=error.retriable)


def result(error: BaseException) -> Answer:
    """Return the result of sending a record that failed with `error`, for the answer to a `producer.send` request (CONTROL.md)."""
    return {"error": (failure(error) or Failure(f"CLIENT:{type(error).__name__}", str(error))).as_json()}


def of_code(code: int, message: str | None = None) -> Answer | None:
    """Return Kafka's error code `code` as an error of the control protocol (CONTROL.md); None for code 0."""
    if not code:
        return None
    return of_class(errors.for_code(code), message)


def of_class(kind: type[BaseException], message: str | None = None) -> Answer | None:
    """Return one of kafka-python's error classes as an error of the control protocol (CONTROL.md); None for the class NoError."""
    if kind is errors.NoError:
        return None
    failed = failure(kind(message) if message else kind())
    assert failed is not None, "classes of kafka.errors are KafkaErrors"
    return failed.as_json()
