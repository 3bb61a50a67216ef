"""Tests of the APIs at a controller's listener."""

from __future__ import annotations

from ottla.broker.api.controller_envelope import FORWARDABLE
from ottla.broker.api.controller_routes import CONTROLLER_ROUTES
from ottla.protocol.messages.registry import request_class

LISTED_ALONE = {41, 50}
"""DescribeDelegationToken and DescribeUserScramCredentials, which Kafka's controller lists but does not handle."""
OF_KAFKA = {1, 17, 18, 19, 20, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46, 49, 50, 51}
OF_KAFKA |= {52, 53, 54, 55, 56, 57, 58, 59, 60, 62, 63, 64, 67, 70, 73, 80, 81, 82}


def test_the_routes_are_those_of_kafkas_controller() -> None:
    assert set(CONTROLLER_ROUTES) == OF_KAFKA - LISTED_ALONE


def test_every_served_version_has_a_message() -> None:
    for key, route in CONTROLLER_ROUTES.items():
        message = request_class(key)
        assert (route.min_version, route.max_version) == (message.MIN_VERSION, message.MAX_VERSION), key


def test_every_forwardable_api_is_served() -> None:
    assert set(CONTROLLER_ROUTES) >= FORWARDABLE
