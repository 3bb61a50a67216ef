"""What libraries and brokers log beside a command: only what ends it is worth a user's attention, and that comes as an error."""

from __future__ import annotations

import logging


def quiet_client_logs() -> None:
    """Let only critical messages of aiokafka pass: it logs every connection it cannot make, and raises in the end."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def quiet_broker_logs() -> None:
    """Let only errors of the brokers in this process pass: that peers vanish is what they are there for."""
    logging.getLogger("ottla").setLevel(logging.ERROR)
