"""The lists of APIs that Kafka serves equal those in the schemas from which Kafka generates its messages."""

from __future__ import annotations

from typing import Final

from ottla.broker.api.routes import controller_routes
from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE
from ottla.broker.releases.table import table_of
from ottla.protocol.api_keys import ApiKey
from tests.golden.test_message_schemas import schemas, versions

LISTED_ONLY: Final = frozenset({ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS})
"""APIs that Kafka's controller lists but does not handle."""
PRODUCE_FROM_THE_FIRST: Final = ApiKey.PRODUCE
"""Versions are listed that are not served, for librdkafka (KAFKA-18659)."""


def test_declared_apis_are_those_of_kafkas_broker_schemas() -> None:
    recorded = table_of(DEFAULT_RELEASE).apis
    listed = {key: range(recorded[key.camel_case][0], recorded[key.camel_case][1] + 1) for key in ApiKey if key.camel_case in recorded}
    of_brokers = [schema for schema in schemas().values() if schema["type"] == "request" and "broker" in schema.get("listeners", [])]
    served = {ApiKey(schema["apiKey"]): versions(schema["validVersions"]) for schema in of_brokers if schema["validVersions"] != "none"}
    for schema in of_brokers:
        if schema.get("latestVersionUnstable", False):
            found = served[ApiKey(schema["apiKey"])]
            served[ApiKey(schema["apiKey"])] = found[:-1]
    assert {key for key in served if served[key]} == set(listed)
    differing = {key.name: (listed[key], served[key]) for key in listed if listed[key] != served[key]}
    assert set(differing) <= {PRODUCE_FROM_THE_FIRST.name}, differing


def test_a_controller_serves_the_apis_and_versions_of_kafkas_controller() -> None:
    of_controllers = [
        schema for schema in schemas().values() if schema["type"] == "request" and "controller" in schema.get("listeners", [])
    ]
    kafkas = {schema["apiKey"]: versions(schema["validVersions"]) for schema in of_controllers if schema["validVersions"] != "none"}
    ours = {key: range(route.min_version, route.max_version + 1) for key, route in controller_routes().items()}
    assert ours == {key: span for key, span in kafkas.items() if key not in LISTED_ONLY}
