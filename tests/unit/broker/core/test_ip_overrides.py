from __future__ import annotations

import pytest

from ottla.broker.core.ip_overrides import IP_OVERRIDES, ip_overrides
from ottla.broker.core.settings_load import SettingsError, load


def test_the_last_colon_of_an_override_separates_address_and_count() -> None:
    assert ip_overrides("") == {}
    assert ip_overrides("127.0.0.1:5 , ::1:7,0:0:0:0:0:0:0:2:0") == {"127.0.0.1": 5, "::1": 7, "::2": 0}


def test_a_host_name_is_resolved_to_its_address() -> None:
    assert set(ip_overrides("localhost:3").items()) <= {("127.0.0.1", 3), ("::1", 3)}


@pytest.mark.parametrize("text", ["127.0.0.1", ":5", "127.0.0.1:", "127.0.0.1:many", "127.0.0.1:-1", "127.0.0.1:5,", "a b:5"])
def test_an_invalid_address_or_count_is_rejected(text: str) -> None:
    assert IP_OVERRIDES.problem(text)
    with pytest.raises(SettingsError, match=r"max\.connections\.per\.ip\.overrides"):
        load({"max.connections.per.ip.overrides": text}, {}, None)


def test_a_limit_of_zero_connections_per_ip_requires_overrides() -> None:
    with pytest.raises(SettingsError, match="rejects every connection"):
        load({"max.connections.per.ip": "0"}, {}, None)
    limits = {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}
    assert load(limits, {}, None).settings.max_connections_per_ip == 0
