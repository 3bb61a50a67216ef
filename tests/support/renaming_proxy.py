"""A malicious cluster: a proxy before a real broker that replaces a topic's name in every response by another one of the same length."""

from __future__ import annotations

import socket
import threading
from types import TracebackType

HOST = "127.0.0.1"


class RenamingProxy:
    """A proxy that listens at `port` and forwards to `upstream`, a port that is set before the first connection. In responses it replaces
    the topic name `real` by `replacement`, in requests `replacement` by `real`."""

    def __init__(self, real: bytes, replacement: bytes) -> None:
        assert len(real) == len(replacement)
        self._real, self._replacement = real, replacement
        self._listening = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = []
        self.port: int = self._listening.getsockname()[1]
        self.upstream = 0

    def __enter__(self) -> RenamingProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for each in (self._listening, *self._open):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            broker = socket.create_connection((HOST, self.upstream))
            self._open += [client, broker]
            threading.Thread(target=self._forward, args=(client, broker, self._replacement, self._real), daemon=True).start()
            threading.Thread(target=self._forward, args=(broker, client, self._real, self._replacement), daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket, before: bytes, after: bytes) -> None:
        try:
            while data := source.recv(1 << 20):
                target.sendall(data.replace(before, after))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the test is over, or the client closed the connection
