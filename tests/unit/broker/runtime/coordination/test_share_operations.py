from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.runtime.coordination.share_operations import (
    DeleteOperation,
    InitializeOperation,
    ReadOperation,
    StateOperation,
    SummaryOperation,
    WriteOperation,
)
from ottla.broker.share.persister import SharePartitionKey, WrittenState

KEY = SharePartitionKey("g", b"t" * 16, 0)
WRITTEN = WrittenState(1, 2, 3, 4, ())


class Recorder:
    """A persister that returns the name of the called method and its arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: (name, *arguments)


@pytest.mark.parametrize(
    ("operation", "called"),
    [
        (InitializeOperation(KEY, 1, -1), ("initialize", KEY, 1, -1)),
        (ReadOperation(KEY, 6), ("read", KEY, 6)),
        (WriteOperation(KEY, WRITTEN), ("write", KEY, WRITTEN)),
        (DeleteOperation(KEY), ("delete", KEY)),
        (SummaryOperation(KEY), ("summary", KEY)),
    ],
)
def test_an_operation_calls_the_persister(operation: StateOperation[Any], called: tuple[Any, ...]) -> None:
    persister: Any = Recorder()
    assert operation.run(persister) == called
