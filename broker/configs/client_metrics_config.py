"""Client metrics subscriptions (KIP-714; Kafka's `ClientMetricsConfigs`): resources of type CLIENT_METRICS.

Subscriptions are validated, stored and described whether telemetry is on or off; `ottla.broker.telemetry` applies them. The regular
expressions in their `match` settings are RE2's, which match in linear time, so that no client can slow down the broker by sending a long
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ottla.broker.core.config_keys import ConfigKey, ConfigType, InvalidConfig, validator
from ottla.broker.core.expressions import InvalidExpression, compiled
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode

INTERVAL_MS: Final = "interval.ms"
MATCH: Final = "match"
METRICS: Final = "metrics"
_INTERVAL_MS_MIN, _INTERVAL_MS_MAX = 100, 3_600_000
CLIENT_INSTANCE_ID: Final = "client_instance_id"
CLIENT_ID: Final = "client_id"
CLIENT_SOFTWARE_NAME: Final = "client_software_name"
CLIENT_SOFTWARE_VERSION: Final = "client_software_version"
CLIENT_SOURCE_ADDRESS: Final = "client_source_address"
CLIENT_SOURCE_PORT: Final = "client_source_port"
_PARAMETERS: Final = frozenset(
    {CLIENT_INSTANCE_ID, CLIENT_ID, CLIENT_SOFTWARE_NAME, CLIENT_SOFTWARE_VERSION, CLIENT_SOURCE_ADDRESS, CLIENT_SOURCE_PORT}
)
_NOT_EMPTY: Final = validator(lambda value: isinstance(value, tuple) and all(value), "values must not be empty")

METRICS_KEYS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(INTERVAL_MS, ConfigType.INT, 300_000, "How often a client is to push, in milliseconds; the shortest counts."),
        ConfigKey(MATCH, ConfigType.LIST, (), "Which clients, as parameter=expression; all of them have to match.", _NOT_EMPTY),
        ConfigKey(METRICS, ConfigType.LIST, (), "Prefixes of the names of metrics; * is all.", _NOT_EMPTY),
    )
}


def check_metrics_configs(name: str, overrides: Mapping[str, str]) -> None:
    """Check the settings of the client metrics subscription `name`. Raises `Rejected` with INVALID_REQUEST for an empty name, an unknown
    key or an interval out of bounds, and with INVALID_CONFIG for any other invalid value."""
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
    matching_patterns(patterns)


def matching_patterns(texts: Iterable[str]) -> dict[str, Any]:
    """Return the compiled regular expression of each client parameter (such as `client_id`) that is named in `texts`, which have the form
    `parameter=expression`. If a parameter is named several times, the last expression counts. (The type of the compiled expressions is Any,
    because the RE2 library has no type annotations.)

    Raises Rejected(INVALID_CONFIG) if a text does not have this form, names an unknown parameter, or has an invalid expression. Expressions
    that do not count are not compiled: a setting of 32 KB has 1,500, which may take 4 ms each.
    """
    found = {}
    for text in texts:
        parameter, *expressions = text.rstrip("=").split("=")
        if parameter.strip() not in _PARAMETERS or len(expressions) != 1:
            raise _illegal(text)
        found[parameter.strip()] = expressions[0].strip(), text
    return {parameter: _compiled(expression, text) for parameter, (expression, text) in found.items()}


def _compiled(expression: str, text: str) -> Any:
    try:
        return compiled(expression)
    except InvalidExpression:
        raise _illegal(text) from None


def _illegal(text: str) -> Rejected:
    return Rejected(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}")
