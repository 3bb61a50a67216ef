"""The loopback addresses of this machine: many containers have no IPv6."""

from __future__ import annotations

import socket

import pytest


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="there is no ::1 here")
