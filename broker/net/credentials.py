"""What the cluster's metadata keeps of users' passwords, for log-ins. Source: KAFKA CredentialProvider, ScramPublisher."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.broker.security.scram import Credential, credential_of, salted_password

if TYPE_CHECKING:
    from ottla.broker.cluster.image import MetadataImage
    from ottla.broker.security.scram import ScramKind


_SALT_BITS = 128


class Credentials:
    """`image` gives the newest metadata; `users` are known beside it, by their passwords, and `random_bits(n)` salts these."""

    def __init__(self, image: Callable[[], MetadataImage], users: Mapping[str, str], random_bits: Callable[[int], int]) -> None:
        self._image, self._users, self._random_bits = image, users, random_bits
        self._made: dict[tuple[str, str], Credential] = {}

    def find(self, kind: ScramKind, name: str, by_token: bool) -> Credential | None:
        """A change holds for the next log-in. No token is known."""
        if by_token:
            return None
        if name in self._users:
            return self._made.get((kind.name, name)) or self._make(kind, name)
        record = self._image().scram.get((kind.number, name))
        return (
            None
            if record is None
            else Credential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        )

    def _make(self, kind: ScramKind, name: str) -> Credential:
        """At the first log-in: it takes milliseconds."""
        salt = self._random_bits(_SALT_BITS).to_bytes(_SALT_BITS // 8, "big")
        salted = salted_password(kind, self._users[name], salt, kind.min_iterations)
        found = self._made[kind.name, name] = credential_of(kind, salted, salt, kind.min_iterations)
        return found
