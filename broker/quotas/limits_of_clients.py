"""Which quota holds for a client, and with whom it shares it.

Rules, for one kind of quota (`producer_byte_rate`, say):
- The first that there is holds: of the user and the client id, of the user and any client id, of the user, of any user and the client id,
  of any user and any client id, of any user, of the client id, of any client id. Where only one sort of these is in use, only that is
  looked at.
- A quota of a user is shared by all of his connections; one of a client id by all with that id, whosoever; one of both by those who have
  both.
- "Any" is a default: everybody whom it holds for has as much for himself.

Source: KAFKA ClientQuotaManager.DefaultQuotaCallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.broker.cluster.image import QuotaTarget

Sharers: TypeAlias = tuple[str, str]
"""Those who share a quota: a user and a client id, "" where that does not matter."""
NO_LIMIT: Final = float(2**63 - 1)
_USER, _CLIENT = "user", "client-id"


class Limits:
    """All quotas of one kind. Falsy where there are none."""

    def __init__(self, quotas: Mapping[QuotaTarget, Mapping[str, float]], key: str) -> None:
        self._limits = {target: values[key] for target, values in quotas.items() if key in values and not _is_of_address(target)}
        sorts = {frozenset(kind for kind, _ in target) for target in self._limits}
        self._only = next(iter(sorts)) if len(sorts) == 1 else None

    def __bool__(self) -> bool:
        return bool(self._limits)

    def sharers(self, user: str, client_id: str) -> Sharers:
        """With whom a client is measured."""
        if self._only is not None:
            return user if _USER in self._only else "", client_id if _CLIENT in self._only else ""
        for target, sharers in (
            (_both(user, client_id), (user, client_id)),
            (_both(user, None), (user, client_id)),
            (_of(_USER, user), (user, "")),
            (_both(None, client_id), (user, client_id)),
            (_both(None, None), (user, client_id)),
            (_of(_USER, None), (user, "")),
        ):
            if target in self._limits:
                return sharers
        return "", client_id

    def limit(self, sharers: Sharers) -> float:
        """What they may use together."""
        user, client_id = sharers
        if user and client_id:
            targets = [_both(user, client_id), _both(user, None), _both(None, client_id), _both(None, None)]
        elif user:
            targets = [_of(_USER, user), _of(_USER, None)]
        else:
            targets = [_of(_CLIENT, client_id), _of(_CLIENT, None)] if client_id else []
        return next((self._limits[target] for target in targets if target in self._limits), NO_LIMIT)


def _is_of_address(target: QuotaTarget) -> bool:
    return any(kind == "ip" for kind, _ in target)


def _of(kind: str, name: str | None) -> QuotaTarget:
    return frozenset([(kind, name)])


def _both(user: str | None, client_id: str | None) -> QuotaTarget:
    return frozenset([(_USER, user), (_CLIENT, client_id)])
