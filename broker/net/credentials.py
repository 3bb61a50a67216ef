"""What the cluster's metadata keeps of users' passwords, for log-ins. Source: KAFKA CredentialProvider, ScramPublisher."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.security.scram import Credential

if TYPE_CHECKING:
    from ottla.broker.cluster.image import MetadataImage
    from ottla.broker.security.scram import ScramKind


class Credentials:
    """`image` gives the newest metadata."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def find(self, kind: ScramKind, name: str, by_token: bool) -> Credential | None:
        """A change holds for the next log-in. No token is known."""
        if by_token:
            return None
        record = self._image().scram.get((kind.number, name))
        return (
            None
            if record is None
            else Credential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        )
