"""Sets and reads quotas over the wire."""

from __future__ import annotations

from typing import TypeAlias

from ottla.protocol.client import Client
from ottla.protocol.messages.k48_describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.k49_alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData

Target: TypeAlias = tuple[tuple[str, str | None], ...]
ALICE: Target = (("user", "alice"),)
ANYBODY: Target = (("user", "ANONYMOUS"),)
APP: Target = (("client-id", "app"),)
ALICES_APP: Target = (("client-id", "app"), ("user", "alice"))
EVERY_USER: Target = (("user", None),)
LOCAL: Target = (("ip", "127.0.0.1"),)


def quota(target: Target, **values: float | None) -> EntryData:
    """Return an AlterClientQuotas entry that sets quotas of a target; None removes a quota."""
    ops = [OpData(key, value or 0.0, value is None) for key, value in values.items()]
    return EntryData([EntityData(*part) for part in target], ops)


def set_quota(client: Client, target: Target, **values: float | None) -> None:
    """Set quotas of a target; it must succeed."""
    for each in client.call(AlterClientQuotasRequest([quota(target, **values)])).entries:
        assert each.error_code == 0, each.error_message


def quotas_of(client: Client, target: Target) -> dict[str, float]:
    """Return the quotas of exactly this target, without those of targets that include it."""
    parts = [ComponentData(kind, 1 if name is None else 0, name) for kind, name in target]
    entries = client.call(DescribeClientQuotasRequest(parts, strict=True)).entries
    return {value.key: value.value for entry in entries for value in entry.values}
