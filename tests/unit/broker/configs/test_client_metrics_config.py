from __future__ import annotations

import pytest

from ottla.broker.configs import client_metrics_config
from ottla.broker.configs.client_metrics_config import METRICS_KEYS, check_metrics_configs
from ottla.broker.core.rejected import Rejected
from ottla.protocol.error_codes import ErrorCode


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"interval.ms": "100"},
        {"interval.ms": "3600000"},
        {"metrics": "*"},
        {"metrics": ""},
        {"match": " client_id = a ,client_source_port=1"},
    ],
)
def test_a_valid_subscription_is_accepted(overrides: dict[str, str]) -> None:
    check_metrics_configs("m", overrides)


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ({"interval.ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"no.such": "1"}, ErrorCode.INVALID_REQUEST),
        ({"interval.ms": "often"}, ErrorCode.INVALID_CONFIG),
        ({"metrics": "a,,b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id="}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=a=b"}, ErrorCode.INVALID_CONFIG),
        ({"match": "colour=red"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_invalid_subscription_gets_kafkas_error(overrides: dict[str, str], code: ErrorCode) -> None:
    with pytest.raises(Rejected) as refused:
        check_metrics_configs("m", overrides)
    assert refused.value.code is code


def test_only_the_expression_that_counts_for_a_parameter_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(client_metrics_config, "compiled", seen.append)
    check_metrics_configs(
        "m", {"match": ",".join(["client_id=(", *(f"client_id={number}" for number in range(1_000)), "client_source_port=1"])}
    )
    assert seen == ["999", "1"]


def test_a_subscription_needs_a_name() -> None:
    with pytest.raises(Rejected) as refused:
        check_metrics_configs("", {})
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_every_default_is_allowed() -> None:
    assert [key.name for key in METRICS_KEYS.values() if key.validator is not None and not key.validator.allows(key.default)] == []
