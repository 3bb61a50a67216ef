"""Lookup of SCRAM credentials and delegation tokens in the cluster's metadata.

Source: KAFKA CredentialProvider, ScramPublisher, DelegationTokenPublisher.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.cluster.image import MetadataImage
from ottla.broker.core.principal import Principal
from ottla.broker.security.scram import Credential, ScramKind, credential_of, salted_password
from ottla.broker.security.tokens import token_password

_SALT_BITS = 128


class Credentials:
    """The SCRAM credentials that a broker accepts. `image` returns the newest metadata, whose users and delegation tokens have credentials.
    `users` are further user names with their passwords; their salts come from `random_bits(n)`. Without `token_secret` no delegation token
    is valid."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        users: Mapping[str, str],
        random_bits: Callable[[int], int],
        token_secret: str | None = None,
    ) -> None:
        self._image, self._users, self._random_bits, self._token_secret = image, users, random_bits, token_secret
        self._made: dict[tuple[str, str], Credential] = {}
        self._of_tokens: dict[tuple[str, str], Credential] = {}

    def find(self, kind: ScramKind, name: str, by_token: bool) -> Credential | None:
        """Return the credential of a user or, with `by_token`, of the delegation token with the id `name`; None if there is none. Changed
        metadata applies to the next login. An expired token is found, too; its session expires at once."""
        if by_token:
            return self._of_token(kind, name)
        if name in self._users:
            return self._made.get((kind.name, name)) or self._make(kind, name)
        record = self._image().scram.get((kind.number, name))
        return (
            None
            if record is None
            else Credential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        )

    def _make(self, kind: ScramKind, name: str) -> Credential:
        """Return the credential of one of the further `users`: salt the password. This takes milliseconds, so it is done at the user's
        first login and not at the broker's start."""
        found = self._made[kind.name, name] = self._salted(kind, self._users[name])
        return found

    def _of_token(self, kind: ScramKind, token_id: str) -> Credential | None:
        tokens = self._image().delegation_tokens
        token = tokens.get(token_id)
        if token is None or not self._token_secret:
            return None
        kept = self._of_tokens.get((kind.name, token_id))
        if kept is None:
            kept = self._salted(kind, token_password(self._token_secret, token_id))
            self._of_tokens = {key: each for key, each in self._of_tokens.items() if key[1] in tokens}
            self._of_tokens[kind.name, token_id] = kept
        return kept._replace(owner=Principal.parse(token.owner).name, expires_ms=token.expiration_timestamp)

    def _salted(self, kind: ScramKind, password: str) -> Credential:
        salt = self._random_bits(_SALT_BITS).to_bytes(_SALT_BITS // 8, "big")
        return credential_of(kind, salted_password(kind, password, salt, kind.min_iterations), salt, kind.min_iterations)
