"""Translates aiokafka's exceptions to errors of the control protocol (CONTROL.md)."""

from __future__ import annotations

from aiokafka.errors import KafkaError

from client_compat.clients.control import Answer, Failure, kafka_name


def failure(error: BaseException) -> Failure | None:
    """Translate an exception of aiokafka to an error of the control protocol (CONTROL.md); return None for any other exception. aiokafka
    reports Kafka's error code and a retriable flag, but no other flags."""
    if not isinstance(error, KafkaError):
        return None
    name = kafka_name(getattr(error, "errno", None))
    return Failure(name or f"CLIENT:{type(error).__name__}", str(error), retriable=error.retriable)


def result(error: BaseException) -> Answer:
    """Return the result of sending a record that failed with `error`, for the answer to a `producer.send` request (CONTROL.md)."""
    return {"error": (failure(error) or Failure(f"CLIENT:{type(error).__name__}", str(error))).as_json()}
