"""A real S3 server over a directory: versitygw, which `make object-store` builds with Go into `.tools`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.fs

ROOT = Path(__file__).parents[2]
ACCESS_KEY, SECRET_KEY = "ottla", "ottla-secret"
TRIES = 200


def find_server() -> str | None:
    """Return the path of the versitygw program; None if it is not built."""
    built = ROOT / ".tools" / "versitygw"
    return str(built) if built.exists() else shutil.which("versitygw")


@contextmanager
def s3_server(program: str, directory: Path) -> Iterator[str]:
    """Run the server, whose buckets are the directories in `directory`; yield its endpoint. Sets environment variables with the keys."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY, "HOME": str(directory)}
    command = [program, "--port", endpoint, "--quiet", "posix", str(directory)]
    server = subprocess.Popen(command, env=os.environ | keys, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(endpoint)
        yield endpoint
    finally:
        server.terminate()
        server.wait(10)


def _wait_until_it_answers(endpoint: str) -> None:
    """Wait until the server answers. Raises OSError after TRIES retries, each with the client's own retries."""
    client = pyarrow.fs.S3FileSystem(
        endpoint_override=endpoint, scheme="http", region="us-east-1", access_key=ACCESS_KEY, secret_key=SECRET_KEY
    )
    for left in range(TRIES, -1, -1):
        try:
            client.get_file_info(pyarrow.fs.FileSelector(""))
            return
        except OSError:
            if not left:
                raise
