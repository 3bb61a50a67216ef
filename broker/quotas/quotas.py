"""All quotas that a node applies. `Quotas` exists only after the first quota was configured."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.cluster.image import QuotaTarget
from ottla.broker.quotas.clients import MutationQuota, UsageQuota
from ottla.broker.quotas.connections import ConnectionQuota
from ottla.broker.quotas.rates import Windows


class Quotas:
    """All quotas of a node. `windows` (quota.window.…) apply to clients' usage, `controller_windows` (controller.quota.…) to
    controller mutations.
    """

    def __init__(self, windows: Windows, controller_windows: Windows) -> None:
        self.produce = UsageQuota("producer_byte_rate", windows)
        self.fetch = UsageQuota("consumer_byte_rate", windows)
        self.request = UsageQuota("request_percentage", windows, wait_ms_max=windows.ms)
        self.mutation = MutationQuota(controller_windows)
        self.connection = ConnectionQuota(windows)

    def change(self, quotas: Mapping[QuotaTarget, Mapping[str, float]]) -> None:
        """Replace all quotas of the node."""
        for each in (self.produce, self.fetch, self.request, self.mutation, self.connection):
            each.change(quotas)

    @property
    def of_clients(self) -> bool:
        """Whether any client quota is configured."""
        return bool(self.produce or self.fetch or self.request or self.mutation)
