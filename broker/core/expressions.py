"""Regular expressions that clients send (topic subscriptions of consumer groups), in the syntax of RE2. Compilation and each match take
bounded time and memory.

Rules:
* Expressions are compiled with RE2's option never_capture. With captures, RE2 needs 22 s to find 16,000 empty groups in one name; without
  them it takes microseconds. Named groups are captured nevertheless, so their number has a limit.
* EXPRESSION_BYTES limits the memory of a compiled expression, and thereby the time of a match. RE2 parses each Unicode class (`\\pL`) into
  a table of hundreds of ranges before that limit applies: 6,000 of them take 0.5 s and 190 MB. So their number has a limit of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ottla.broker.core import limits


class InvalidExpression(ValueError):
    """Raised if RE2 cannot compile a regular expression, or if its compilation could take too long. The exception's text is the reason."""


@lru_cache(maxsize=limits.EXPRESSIONS_KEPT)
def compiled(expression: str) -> Any:
    """Return the compiled RE2 expression; its type is Any, because the library has no types. Raises InvalidExpression if RE2 cannot compile
    the expression, or if it has too many Unicode classes or named groups."""
    import re2  # noqa: PLC0415 # costs a start 5 ms and 2.5 MB, and few clients send expressions

    if expression.count("\\p") + expression.count("\\P") > limits.EXPRESSION_CLASSES:
        raise InvalidExpression(f"more than {limits.EXPRESSION_CLASSES} Unicode classes")
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = limits.EXPRESSION_BYTES
    try:
        pattern = re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0] if error.args else b""
        raise InvalidExpression(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
    if pattern.groups > limits.EXPRESSION_NAMED_GROUPS:
        raise InvalidExpression(f"more than {limits.EXPRESSION_NAMED_GROUPS} named groups")
    return pattern
