"""The image's root without an engine: this machine's files with those of `container/` over them, each container in namespaces of its own.

What an engine would do is done by the kernel's own means: an overlay whose changes vanish, a network with nothing but loopback, a host
name, process ids, and user 1000 of group 0. `container/install` makes the root, as in the Dockerfile. What only an engine has is not
shown: the base image, published ports, and the metadata of the image (tests/scenario/test_container.py has them).
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
PATIENCE_S = 60
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
    """Why it cannot be had here; None where it can."""
    if os.geteuid() != 0:
        return "only root may make such a root"
    if missing := [name for name in ("unshare", "nsenter", "chroot", "mount") if shutil.which(name) is None]:
        return f"{missing[0]} is not installed"
    tried = subprocess.run(["unshare", *_NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no namespaces can be made: {tried.stderr.strip()}"


def made_layer(directory: Path) -> Path:
    """What the image has beside its base; made by `container/install`, with this checkout's Ottla in the place of the wheel's."""
    layer = directory / "layer"
    (layer / "opt").mkdir(parents=True)
    (layer / "opt/ottla").symlink_to(sys.prefix)
    subprocess.run(["bash", ROOT / "container/install", layer], check=True, timeout=PATIENCE_S)
    return layer


class Container:
    """A running one. `env` and `command` are as an image's user gives them; without a command the entry point is alone."""

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
        """What it wrote, both streams."""
        return self._output.read_text(errors="replace")

    @property
    def seconds(self) -> float:
        """Since its start."""
        return time.monotonic() - self.began

    def end(self) -> None:
        """Kills it, and what is in it: its first process, with which its namespace of processes ends. (--kill-child alone spares one that
        has changed its user.)"""
        if self._process.poll() is None:
            for child in psutil.Process(self._process.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        self._process.kill()
        self._process.wait()

    def put(self, path: str, text: str, mode: int) -> None:
        """As `docker cp` puts a file into a running container."""
        self.wait_until(self._is_up, "its root")
        there = Path(f"/proc/{self._init}/root{path}")
        partial = there.with_name(f".{there.name}")
        partial.write_text(text)
        partial.chmod(mode)
        partial.rename(there)

    def exec(self, *command: str, stdin: str = "", user: int = 1000, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        """As `docker exec` runs a command: with the container's variables, in the image's working directory."""
        variables = [f"{key}={value}" for key, value in {"PATH": _PATH, "PYTHONUNBUFFERED": "1", **self.env}.items()]
        argv = ["nsenter", f"--target={self._init}", *_NAMESPACES, "--root", "--wd", f"--setuid={user}", "--setgid=0", "env", "-i"]
        return subprocess.run([*argv, *variables, *command], input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s)

    def stop(self) -> int:
        """SIGTERM to its first process; its exit code."""
        os.kill(self._init, signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def wait(self) -> int:
        """Until it ends by itself; its exit code."""
        return self._process.wait(PATIENCE_S)

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Raises AssertionError with its output, as soon as it has ended or after PATIENCE_S."""
        while not condition():
            if self._process.poll() is not None or time.monotonic() - self.began > PATIENCE_S:
                raise AssertionError(f"{what} is not there:\n{self.output}")
            time.sleep(0.01)

    def _is_up(self) -> bool:
        return Path(f"/proc/{self._init}/root").readlink() != Path("/")

    @property
    def _init(self) -> int:
        """Its first process, as this machine numbers it."""
        while not (children := psutil.Process(self._process.pid).children()):
            if self._process.poll() is not None:
                raise AssertionError(f"it did not start:\n{self.output}")
            time.sleep(0.002)
        return int(children[0].pid)


def _closed_parents() -> list[str]:
    """The directories above Python and this checkout, which others than root may not be allowed to enter."""
    found: list[str] = []
    for path in (Path(sys.base_prefix), ROOT):
        found += [str(parent) for parent in [*reversed(path.parents), path] if parent != Path("/") and str(parent) not in found]
    return found
