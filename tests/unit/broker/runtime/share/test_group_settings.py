from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.broker.cluster.image import ResourceType
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.runtime.share.group_settings import GroupSettings

LOCK_DURATION = "share.record.lock.duration.ms"


def test_groups_without_own_settings_share_one_object_because_clients_choose_their_ids() -> None:
    configs = {(ResourceType.GROUP, "own"): {LOCK_DURATION: "20000"}}
    catalog: Any = SimpleNamespace(image=SimpleNamespace(features={}), configs=lambda kind, name: configs.get((kind, name), {}))
    broker_configs: Any = SimpleNamespace(settings=BrokerSettings())
    settings_of = GroupSettings(catalog, broker_configs)
    assert settings_of("g") is settings_of("h")
    assert settings_of("own") is settings_of("own")
    assert (settings_of("g").record_lock_duration_ms, settings_of("own").record_lock_duration_ms) == (30_000, 20_000)
    catalog.image, configs[ResourceType.GROUP, "g"] = SimpleNamespace(features={}), {LOCK_DURATION: "25000"}
    assert settings_of("g").record_lock_duration_ms == 25_000
