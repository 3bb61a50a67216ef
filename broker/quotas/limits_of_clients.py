"""The quota that applies to a client, and the clients that share it.

Rules, for one kind of quota (such as `producer_byte_rate`):
* The first quota that is configured applies, in this order: user and client id; user and default client id; user; default user and client
  id; default user and default client id; default user; client id; default client id. If all configured quotas have the same form, only
  that form is looked up.
* All connections of a user share a quota of that user. All connections with a client id share a quota of that client id. A quota of both
  is shared by the connections that have both.
* A default quota gives each user or client id its own share.

Source: KAFKA ClientQuotaManager.DefaultQuotaCallback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.broker.cluster.image import QuotaTarget

Sharers: TypeAlias = tuple[str, str]
"""The key of a shared quota: a user and a client id; "" if it does not depend on the user or the client id."""
NO_LIMIT: Final = float(2**63 - 1)
_USER, _CLIENT = "user", "client-id"


class Limits:
    """All configured quotas of one kind, such as `producer_byte_rate`. False in a boolean context if there are none."""

    def __init__(self, quotas: Mapping[QuotaTarget, Mapping[str, float]], key: str) -> None:
        self._limits = {target: values[key] for target, values in quotas.items() if key in values and not _is_of_address(target)}
        sorts = {frozenset(kind for kind, _ in target) for target in self._limits}
        self._only = next(iter(sorts)) if len(sorts) == 1 else None

    def __bool__(self) -> bool:
        return bool(self._limits)

    def sharers(self, user: str, client_id: str) -> Sharers:
        """Return the (user, client id) under which a client's usage is measured.

        A part is empty if the applying quota does not distinguish by it: connections with an equal result share a quota.
        """
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
        """Return the limit that applies to the user and client id that `sharers` returned, NO_LIMIT without a quota."""
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
