"""What an exception of aiokafka's says, in CONTROL.md's words."""

from __future__ import annotations

from aiokafka.errors import KafkaError

from client_compat.clients.control import Answer, Failure, kafka_name


def failure(error: BaseException) -> Failure | None:
    """aiokafka tells a broker's error by its number, and of every error whether it is retriable; nothing else."""
    if not isinstance(error, KafkaError):
        return None
    name = kafka_name(getattr(error, "errno", None))
    return Failure(name or f"CLIENT:{type(error).__name__}", str(error), retriable=error.retriable)


def result(error: BaseException) -> Answer:
    """The result of a record that failed."""
    return {"error": (failure(error) or Failure(f"CLIENT:{type(error).__name__}", str(error))).as_json()}
