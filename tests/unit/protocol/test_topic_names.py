"""Kafka's rule for topic names, which keeps a path made from one inside its directory."""

from __future__ import annotations

import pytest

from ottla.protocol.topic_names import NAME_LENGTH_MAX, name_problem


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "...", "x" * NAME_LENGTH_MAX, "__consumer_offsets"])
def test_a_legal_name_has_no_problem(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "a\n", "ä", "a\x00", "x" * (NAME_LENGTH_MAX + 1)])
def test_a_name_that_is_a_path_or_too_long_has_a_problem(name: str) -> None:
    assert name_problem(name)
