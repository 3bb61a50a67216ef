"""What an exception of confluent-kafka's says, in CONTROL.md's words."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from client_compat.clients.control import Answer, Failure, kafka_name


def of(error: KafkaError) -> Failure:
    """librdkafka tells a broker's error by its number, its own by a name with an underscore, and every flag."""
    code = kafka_name(error.code()) or f"CLIENT:{error.name()}"
    return Failure(code, error.str(), error.retriable(), error.fatal(), error.txn_requires_abort())


def failure(error: BaseException) -> Failure | None:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return of(error.args[0])
    return None


def result(error: KafkaError) -> Answer:
    """The result of a record that failed."""
    return {"error": of(error).as_json()}


def check(error: KafkaError | None) -> None:
    """Raises what a row of an answer carries as its own error."""
    if error is not None:
        raise KafkaException(error)
