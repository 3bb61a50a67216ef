"""Finds the request and response class of an API key.

The file of a key is `k<key>_<name>.py`, its classes are `<Name>Request` and `<Name>Response`. The file is imported on first use, so that
unused APIs cost no start time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.schema import Message

_KNOWN: Final = frozenset(ApiKey)


def request_class(api_key: int) -> type[Message]:
    """Return the request class of an API. Raises KeyError for a key without one."""
    return _find(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    """Return the response class of an API. Raises KeyError for a key without one."""
    return _find(api_key, "Response")


@cache
def declared_keys() -> Sequence[ApiKey]:
    """Return the keys of the APIs that have a request and a response class here, in ascending order."""
    return sorted(ApiKey(int(path.stem[1:].partition("_")[0])) for path in Path(__file__).parent.glob("k[0-9]*_*.py"))


@cache
def _find(api_key: int, kind: str) -> type[Message]:
    if api_key not in _KNOWN:
        raise KeyError(api_key)
    key = ApiKey(api_key)
    name = f"ottla.protocol.messages.k{api_key:02d}_{key.name.lower()}"
    try:
        found: type[Message] = getattr(import_module(name), key.camel_case + kind)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise KeyError(api_key) from None
    return found
