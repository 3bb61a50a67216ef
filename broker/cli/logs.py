"""Reduces what libraries and brokers log while a command runs: an error that matters to the user is raised anyway."""

from __future__ import annotations

import logging


def quiet_client_logs() -> None:
    """Log only critical messages of aiokafka: it logs every failed connection attempt, and raises in the end."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def quiet_broker_logs() -> None:
    """Log only errors of the brokers in this process: lost connections are part of every verification."""
    logging.getLogger("ottla").setLevel(logging.ERROR)
