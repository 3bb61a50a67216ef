"""Addresses of the controllers: `controller.quorum.bootstrap.servers` (`host:port,…`) and `controller.quorum.voters` (`id@host:port,…`).

Source: Kafka's `QuorumConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ottla.broker.core.config_keys import Validator, Value

UNKNOWN_ID: Final = -1
_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%]+)\]|(?P<host>[0-9A-Za-z._%-]+)):(?P<port>\d{1,5})")
_PORT_MAX: Final = 65_535


class QuorumAddress(NamedTuple):
    """The address of one controller. The id of a bootstrap server is unknown: -1."""

    node_id: int
    host: str
    port: int


def bootstrap_servers(items: Sequence[str]) -> list[QuorumAddress]:
    """Return the addresses in `items`, the value of `controller.quorum.bootstrap.servers`. Raises ValueError if an item is not a valid
    address; the error's text says why."""
    return [_address(UNKNOWN_ID, item, item, "{host}:{port}") for item in items]


def voters(items: Sequence[str]) -> list[QuorumAddress]:
    """Return the addresses in `items`, the value of `controller.quorum.voters`. Raises ValueError if an item is not valid; the error's text
    says why."""
    return [_voter(item) for item in items]


def _voter(item: str) -> QuorumAddress:
    node_id, at, address = item.partition("@")
    if not at or not node_id.isdecimal():
        raise ValueError(_problem(item, "{id}@{host}:{port}"))
    return _address(int(node_id), address, item, "{id}@{host}:{port}")


def _address(node_id: int, text: str, item: str, form: str) -> QuorumAddress:
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _PORT_MAX:
        raise ValueError(_problem(item, form))
    return QuorumAddress(node_id, match["v6"] or match["host"], int(match["port"]))


def _problem(item: str, form: str) -> str:
    return f"{item} is not in the form {form}"


def _each(parse: Callable[[Sequence[str]], object]) -> Validator:
    def problem(value: Value) -> str | None:
        assert isinstance(value, tuple)
        try:
            parse(value)
        except ValueError as error:
            return str(error)
        return None

    return Validator(problem)


BOOTSTRAP_SERVERS: Final = _each(bootstrap_servers)
VOTERS: Final = _each(voters)
