"""Subscriptions to clients' metrics (KIP-714; Kafka's `ClientMetricsConfigs`): resources of type CLIENT_METRICS.

They are checked, kept and described; no client is asked for its metrics here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, validator
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 100, 3_600_000
_PARAMETERS: Final = frozenset(
    {"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}
)
_NOT_EMPTY: Final = validator(lambda value: isinstance(value, tuple) and all(value), "values must not be empty")

METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(INTERVAL_MS, ConfigType.INT, 300_000, "How often a client is to push, in milliseconds. Kept, without effect."),
        ConfigKey(MATCH, ConfigType.LIST, (), "Which clients, as parameter=expression. Kept, without effect.", _NOT_EMPTY),
        ConfigKey("metrics", ConfigType.LIST, (), "Prefixes of names; * is all. Kept, without effect.", _NOT_EMPTY),
    )
}


def check_metrics_configs(name: str, overrides: Mapping[str, str]) -> None:
    """Raises `Rejected`: INVALID_REQUEST for no name, an unknown key and an interval out of bounds, INVALID_CONFIG for other values."""
    if not name:
        raise Rejected(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in overrides:
        if key not in METRICS_KEYS:
            raise Rejected(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    try:
        values = {key: METRICS_KEYS[key].parse(text) for key, text in overrides.items()}
    except InvalidConfig as error:
        raise Rejected(ErrorCode.INVALID_CONFIG, str(error)) from error
    interval = values.get(INTERVAL_MS, _INTERVAL_MS_MIN)
    assert isinstance(interval, int)
    if not _INTERVAL_MS_MIN <= interval <= _INTERVAL_MS_MAX:
        what = "interval must be between 100 and 3600000 (1 hour)"
        raise Rejected(ErrorCode.INVALID_REQUEST, f"Invalid value {interval} for {INTERVAL_MS}, {what}")
    patterns = values.get(MATCH, ())
    assert isinstance(patterns, tuple)
    for pattern in patterns:
        if not _is_pattern(pattern):
            raise Rejected(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _is_pattern(text: str) -> bool:
    parameter, *expressions = text.rstrip("=").split("=")
    if parameter.strip() not in _PARAMETERS or len(expressions) != 1:
        return False
    try:
        re.compile(expressions[0].strip())
    except re.error:
        return False
    return True
