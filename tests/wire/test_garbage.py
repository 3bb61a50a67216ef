"""Tests that handling a request leaves no reference cycle for each of its elements. The garbage collector runs seldom, and then blocks the
event loop for a time proportional to its garbage."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from client_compat.fuzz.largest import largest
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.messages.k18_api_versions import ApiVersionsRequest
from ottla.protocol.messages.registry import request_class
from tests.support.access import GUARDED, ann, bob
from tests.support.running_broker import RunningBroker

ELEMENTS = 100


@pytest.mark.broker_settings(GUARDED)
@pytest.mark.parametrize("logged_in", [ann, bob])
def test_many_elements_that_are_rejected_leave_no_cycles(
    broker: RunningBroker, logged_in: Callable[[RunningBroker], AbstractContextManager[Client]]
) -> None:
    with broker.client() as client:
        apis = client.call(ApiVersionsRequest("test", "1"), 3).api_keys
    left = {}
    with only_new_objects_collected():
        for api in apis:
            for array, request in largest(request_class(api.api_key), api.max_version, ELEMENTS):
                with logged_in(broker) as client:
                    gc.collect()
                    client.call(request, api.max_version)
                    left[ApiKey(api.api_key).name, array] = gc.collect()
    assert {name: count for name, count in left.items() if count >= ELEMENTS // 2} == {}


@contextmanager
def only_new_objects_collected() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
