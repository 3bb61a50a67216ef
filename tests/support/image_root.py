"""The image's root without a container engine: this machine's files with those of `container/` over them, each container in its own
namespaces.

The kernel does what an engine would do: an overlay file system whose changes are discarded, a network with only loopback, a host name,
process ids, and user 1000 of group 0. `container/install` makes the root, as in the Dockerfile. Not covered are the base image, published
ports, and the image's metadata (tests/scenario/test_container.py covers them).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
HOST = "kafka"
TIMEOUT_S = 60
_PATH = "/opt/ottla/bin:/opt/kafka/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc")
_INSIDE = r"""
set -eu
mount -t tmpfs tmpfs "$BASE"
mkdir "$BASE/up" "$BASE/work" "$BASE/root"
cp -a "$LAYER" "$BASE/layer"
mount -t overlay overlay -o "lowerdir=$BASE/layer:/,upperdir=$BASE/up,workdir=$BASE/work" "$BASE/root"
cd "$BASE/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
for directory in $OPENED; do chmod a+rx ".$directory"; done
ln -sfn bash bin/sh
hostname "$NAME"
python3 - <<'PYTHON' || ip link set lo up
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))
PYTHON
echo "127.0.0.1 localhost $NAME $ALIASES" > etc/hosts
if [ -n "$READ_ONLY" ]; then
    for directory in data var/lib/kafka/data bitnami/kafka; do mount -t tmpfs -o mode=0775,uid=1000,gid=0 tmpfs "$directory"; done
    mount -o remount,ro "$BASE/root"
fi
exec env -i PATH="$IMAGE_PATH" PYTHONUNBUFFERED=1 chroot --userspec=1000:0 --groups= . "$@"
"""


def possible() -> str | None:
    """Return why containers cannot run here, or None if they can."""
    if os.geteuid() != 0:
        return "only root may make such a root"
    if missing := [name for name in ("unshare", "nsenter", "chroot", "mount") if shutil.which(name) is None]:
        return f"{missing[0]} is not installed"
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no namespaces can be made: {tried.stderr.strip()}"


def made_layer(directory: Path) -> Path:
    """Make the files that the image adds to its base image, and return their directory. They are made by running `container/install` with
    this checkout in place of the wheel."""
    layer = directory / "layer"
    (layer / "opt").mkdir(parents=True)
    (layer / "opt/ottla").symlink_to(sys.prefix)
    subprocess.run(["bash", ROOT / "container/install", layer], check=True, timeout=TIMEOUT_S)
    return layer


class Container:
    """A running container. `env` and `command` are as a user of the image gives them; without a command the entry point runs alone."""

    def __init__(
        self,
        layer: Path,
        directory: Path,
        env: Mapping[str, str],
        command: Sequence[str] = (),
        *,
        entrypoint: Sequence[str] = ("ottla-entrypoint",),
        name: str = HOST,
        aliases: Sequence[str] = (),
        files: Mapping[str, str] | None = None,
        read_only: bool = False,
    ) -> None:
        self.env = dict(env)
        self._output = directory / "output"
        base = directory / "base"
        base.mkdir(parents=True)
        own = directory / "layer"
        subprocess.run(["cp", "-a", layer, own], check=True)
        for path, text in (files or {}).items():
            (own / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            (own / path.lstrip("/")).write_text(text)
        inside = {
            "BASE": str(base),
            "LAYER": str(own),
            "OPENED": " ".join(_closed_parents()),
            "NAME": name,
            "ALIASES": " ".join(aliases),
            "READ_ONLY": "yes" if read_only else "",
            "IMAGE_PATH": _PATH,
            "PATH": os.environ["PATH"],
        }
        argv = ["unshare", *_NAMESPACES, "--fork", "--kill-child", "bash", "-c", _INSIDE, "container"]
        variables = [f"{key}={value}" for key, value in self.env.items()]
        self.began = time.monotonic()
        with self._output.open("wb") as out:
            self._process = subprocess.Popen([*argv, "env", *variables, *entrypoint, *command], stdout=out, stderr=out, env=inside)

    @property
    def output(self) -> str:
        """Return everything that the program has written to stdout and stderr."""
        return self._output.read_text(errors="replace")

    @property
    def seconds(self) -> float:
        """Seconds since the container's start."""
        return time.monotonic() - self.began

    def end(self) -> None:
        """Kill the container's first process, and with it all processes of its PID namespace. (unshare's --kill-child alone does not kill a
        process that has changed its user.)"""
        if self._process.poll() is None:
            for child in psutil.Process(self._process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process.kill()
        self._process.wait()

    def put(self, path: str, text: str, mode: int) -> None:
        """Write a file in the running container, like `docker cp`."""
        self.wait_until(self._is_up, "its root")
        there = Path(f"/proc/{self._init}/root{path}")
        partial = there.with_name(f".{there.name}")
        partial.write_text(text)
        partial.chmod(mode)
        partial.rename(there)

    def exec(self, *command: str, stdin: str = "", user: int = 1000, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        """Run a command like `docker exec`: with the container's variables, in the image's working directory."""
        variables = [f"{key}={value}" for key, value in {"PATH": _PATH, "PYTHONUNBUFFERED": "1", **self.env}.items()]
        argv = ["nsenter", f"--target={self._init}", *_NAMESPACES, "--root", "--wd", f"--setuid={user}", "--setgid=0", "env", "-i"]
        return subprocess.run([*argv, *variables, *command], input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s)

    def stop(self) -> int:
        """Send SIGTERM to the container's first process; return its exit code."""
        os.kill(self._init, signal.SIGTERM)
        return self._process.wait(TIMEOUT_S)

    def wait(self) -> int:
        """Wait until the container ends by itself; return its exit code."""
        return self._process.wait(TIMEOUT_S)

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until the condition holds. Raises AssertionError with the container's output when it has ended, or after TIMEOUT_S
        seconds."""
        while not condition():
            if self._process.poll() is not None or time.monotonic() - self.began > TIMEOUT_S:
                raise AssertionError(f"{what} is not there:\n{self.output}")
            time.sleep(0.01)

    def _is_up(self) -> bool:
        return Path(f"/proc/{self._init}/root").readlink() != Path("/")

    @property
    def _init(self) -> int:
        """The process id, on this machine, of the container's first process."""
        while not (children := psutil.Process(self._process.pid).children()):
            if self._process.poll() is not None:
                raise AssertionError(f"it did not start:\n{self.output}")
            time.sleep(0.002)
        return int(children[0].pid)


def _closed_parents() -> list[str]:
    """Return the directories above Python and this checkout that only root may enter."""
    found: list[str] = []
    for path in (Path(sys.base_prefix), ROOT):
        found += [str(parent) for parent in [*reversed(path.parents), path] if parent != Path("/") and str(parent) not in found]
    return found
