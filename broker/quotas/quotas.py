"""All quotas that a node obeys; there is one `Quotas` where there is, or was, a quota."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.quotas.clients import MutationQuota, UseQuota
from ottla.broker.quotas.connections import ConnectionQuota
from ottla.broker.quotas.rates import Windows


class Quotas:
    """`windows` for what clients use, `controller_windows` for what the controller does for them (quota.window.…, controller.quota.…)."""

    def __init__(self, windows: Windows, controller_windows: Windows) -> None:
        self.produce = UseQuota("producer_byte_rate", windows)
        self.fetch = UseQuota("consumer_byte_rate", windows)
        self.request = UseQuota("request_percentage", windows, wait_ms_max=windows.ms)
        self.mutation = MutationQuota(controller_windows)
        self.connection = ConnectionQuota(windows)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """From now on these hold."""
        for each in (self.produce, self.fetch, self.request, self.mutation, self.connection):
            each.change(quotas)

    @property
    def of_clients(self) -> bool:
        """Whether any client is limited."""
        return bool(self.produce or self.fetch or self.request or self.mutation)
