"""Calls a handler with the interceptors of fault rules and observers around it. This module is imported only while a fault rule or an
observer is active."""

from __future__ import annotations

from functools import partial

from ottla.broker.api.pipeline import Call, Handle, Interceptor, observed
from ottla.broker.api.routes import Answer
from ottla.broker.faults.engine import Faults


def intercepted(call: Call, handle: Handle, faults: Faults) -> Answer:
    """Call `handle` with interceptors around it, and return the result. The outermost interceptors are the fault rules that simulate a bad
    network; then follow the observers, and then the fault rules that simulate a failing broker.
    """
    interceptors: list[Interceptor] = [partial(observed, faults)] if faults.observers else []
    if faults.rules:
        from ottla.broker.api.faulty import FaultInterceptors  # noqa: PLC0415 # only a program with scripted faults needs it

        rules = FaultInterceptors(faults)
        interceptors = [rules.network_faults, *interceptors, rules.handler_faults]
    for interceptor in reversed(interceptors):
        handle = partial(interceptor, call, handle)
    return handle()
