"""Translates confluent-kafka's errors to errors of the control protocol (CONTROL.md)."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from client_compat.clients.control import Answer, Failure, kafka_name


def of(error: KafkaError) -> Failure:
    """Translate an error of librdkafka to an error of the control protocol (CONTROL.md). librdkafka reports Kafka's error codes, its own
    errors with a leading underscore, and all flags."""
    code = kafka_name(error.code()) or f"CLIENT:{error.name()}"
    return Failure(code, error.str(), error.retriable(), error.fatal(), error.txn_requires_abort())


def failure(error: BaseException) -> Failure | None:
    if isinstance(error, KafkaException) and error.args and isinstance(error.args[0], KafkaError):
        return of(error.args[0])
    return None


def result(error: KafkaError) -> Answer:
    """Return the result of sending a record that failed with `error`, for the answer to a `producer.send` request (CONTROL.md)."""
    return {"error": of(error).as_json()}


def check(error: KafkaError | None) -> None:
    """Raise the error of one row of a librdkafka result, such as one partition's, if it has one."""
    if error is not None:
        raise KafkaException(error)
