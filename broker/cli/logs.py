"""Sets up the log of a server, and reduces the log of libraries and brokers while another command runs, because an error that matters to
the user is raised anyway."""

from __future__ import annotations

import logging
import sys

from ottla.broker.core.peer_log import PEERS, PeerLines


def log_to_stderr(level: str) -> None:
    """Log to standard error from this level on (debug, info, warning, error). Lines about peers, such as invalid requests, are limited in
    number."""
    logging.basicConfig(
        level=level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", datefmt="%H:%M:%S"
    )
    logging.getLogger(PEERS).addFilter(PeerLines())


def quiet_client_logs() -> None:
    """Log only critical messages of aiokafka, which logs every failed connection attempt although it finally raises an error, too."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def quiet_broker_logs() -> None:
    """Log only errors of the brokers that a command runs in this process: `ottla verify` breaks many connections on purpose."""
    logging.getLogger("ottla").setLevel(logging.ERROR)
