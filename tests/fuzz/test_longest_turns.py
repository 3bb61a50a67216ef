"""No request holds the loop for long, whatever many things it names. `make fuzz` measures all of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ottla.protocol.api_keys import ApiKey
from tests.fuzz.longest_turns import measure

ELEMENTS = 40_000
FAR_TOO_LONG_MS = 200.0
"""Ten times what is measured on a quiet machine, and half of what each of these took in one piece."""


@pytest.fixture(autouse=True)
def _nothing_is_collected() -> Iterator[None]:
    """What a process of tests has collected takes longer to look through than a request."""
    gc.freeze()
    gc.disable()
    yield
    gc.enable()
    gc.unfreeze()


@pytest.mark.parametrize(
    "key",
    [ApiKey.FETCH, ApiKey.DELETE_TOPICS, ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.DELETE_RECORDS],
    ids=lambda key: key.name,
)
@pytest.mark.parametrize("asker", ["anybody", "without rights"])
def test_the_largest_request_leaves_turns_for_others(key: ApiKey, asker: str) -> None:
    found = list(measure(asker, [key], ELEMENTS, pipelined=(1,)))
    assert found
    assert max(turn.longest_ms for turn in found) < FAR_TOO_LONG_MS, found
