"""What the client library logs: only what ends a command is worth a user's attention, and that comes as an error."""

from __future__ import annotations

import logging


def quiet_client_logs() -> None:
    """Let only critical messages of aiokafka pass: it logs every connection it cannot make, and raises in the end."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
