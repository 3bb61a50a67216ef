from __future__ import annotations

import time

import pytest

from ottla.broker.core import limits
from ottla.broker.core.expressions import InvalidExpression, compiled


def test_an_expression_with_groups_matches_whole_texts() -> None:
    pattern = compiled("(a)(b)?(?P<named>c)")
    assert pattern.fullmatch("abc")
    assert pattern.fullmatch("ac")
    assert not pattern.fullmatch("abcd")


def test_many_groups_cost_nothing() -> None:
    pattern, began = compiled("()" * 16_000), time.thread_time()
    assert not pattern.fullmatch("a" * 249)
    assert time.thread_time() - began < 1  # with captures it takes 20 s


@pytest.mark.parametrize("expression", ["(", "(?=x)", r"\1", "x?" * 16_000, "(x?){500}" * 40, "".join(f"(?P<n{n}>)" for n in range(11))])
def test_an_expression_that_re2_rejects_or_that_is_too_large_is_invalid(expression: str) -> None:
    with pytest.raises(InvalidExpression) as invalid:
        compiled(expression)
    assert str(invalid.value)


def test_the_number_of_unicode_classes_is_limited() -> None:
    assert compiled(r"[\pL\PN]" * (limits.EXPRESSION_CLASSES // 2)).fullmatch("x" * (limits.EXPRESSION_CLASSES // 2))
    began = time.thread_time()
    with pytest.raises(InvalidExpression, match="Unicode classes"):
        compiled(r"\pL\PL" * 3_000)
    assert time.thread_time() - began < 0.2  # RE2 takes 0.5 s to find out that it is too large
