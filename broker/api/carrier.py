"""Gives scripted faults (delays and errors that a test injects into requests) and request observers access to a broker's parts. This module
is imported only while a fault or an observer is active."""

from __future__ import annotations

from ottla.broker.api.services import PartitionServices
from ottla.broker.core.clock import Clock
from ottla.broker.core.timers import Timers


class BrokerCarrier:
    """The parts of a broker that scripted faults and observers of requests use: clock, timers, topic names and producer state. It
    implements `ottla.broker.api.pipeline.Carrier`.
    """

    __slots__ = ("_services",)

    def __init__(self, services: PartitionServices) -> None:
        self._services = services

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def timers(self) -> Timers:
        return self._services.timers

    def topic_name(self, topic_id: bytes) -> str | None:
        found = self._services.partitions.by_topic_id(topic_id)
        return None if found is None else found.name

    def forget_producers(self, topic: str, partition: int | None) -> None:
        found = self._services.partitions.by_name(topic)
        if found is None:
            return
        for each in found.partitions.values() if partition is None else filter(None, [found.partitions.get(partition)]):
            each.forget_producers()
