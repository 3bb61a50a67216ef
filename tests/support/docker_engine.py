"""A Docker engine for the container tests: a running one, or a private one that lives as long as a command.

    python -m tests.support.docker_engine COMMAND…

Rules:
- The private engine keeps everything under `.container`, listens only on a unix socket, and is stopped by its process id.
- If the base image of the Dockerfile cannot be pulled, a substitute is made of Debian's packages, with the wheels that the build needs. Its
  tag depends on its contents, so that another pinned version makes another image. `make clean` removes the private engine's substitutes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import docker
from docker.errors import BuildError, DockerException, ImageNotFound

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".container"
BASE = "python:3.13-slim"
STAND_IN, STAND_IN_BUILD = "ottla-test-base", "ottla-test-build"
SUITE, SUITE_PYTHON = "bookworm", "3.11"
START_TIMEOUT_S = 60
_PACKAGES = "python3,ca-certificates"
_BUILD_PACKAGES = "python3-venv python3-pip python3-dev gcc libc6-dev"


def answers() -> bool:
    """Return whether an engine answers at DOCKER_HOST or at the default socket."""
    scheme, _, address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    try:
        if scheme == "unix":  # checked first, because docker-py leaves its own socket open if nothing listens
            with socket.socket(socket.AF_UNIX) as there:
                there.connect(address)
        client = docker.from_env()
    except (DockerException, OSError):
        return False
    try:
        return bool(client.ping())
    except (DockerException, OSError):
        return False
    finally:
        client.close()


@contextmanager
def engine() -> Iterator[dict[str, str]]:
    """Yield environment variables with which a process finds an engine. Raises RuntimeError if none answers and none can be started."""
    if answers():
        yield dict(os.environ)
        return
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise RuntimeError("no Docker engine answers, and none can be started here (dockerd, as root)")
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ottla-docker-") as run, (WORK / "dockerd.log").open("ab") as log:
        sock = f"unix://{run}/sock"
        argv = ["dockerd", "--data-root", str(WORK / "engine"), "--exec-root", f"{run}/exec", "--pidfile", f"{run}/pid", "-H", sock]
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            os.environ["DOCKER_HOST"] = sock
            _until_it_answers(process)
            yield dict(os.environ)
        finally:
            process.terminate()
            process.wait(START_TIMEOUT_S)


def _until_it_answers(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"dockerd did not start: {WORK / 'dockerd.log'}")
        time.sleep(0.1)


def base_images() -> dict[str, str]:
    """Return the build arguments for the base images: none if the Dockerfile's own can be pulled, else the substitutes."""
    client, tag = docker.from_env(), stand_in_tag()
    stand_ins = {"BASE_IMAGE": f"{STAND_IN}:{tag}", "BUILD_IMAGE": f"{STAND_IN_BUILD}:{tag}"}
    try:
        for image, arguments in ((BASE, {}), (stand_ins["BUILD_IMAGE"], stand_ins)):
            try:
                client.images.get(image)
            except ImageNotFound:
                continue
            return arguments
        try:
            client.images.pull(BASE)
        except DockerException as error:
            print(f"{BASE} cannot be pulled ({error}): making a stand-in of Debian's packages", flush=True)
            _make_stand_ins(tag)
            return stand_ins
        return {}
    finally:
        client.close()


def stand_in_tag(root: Path = ROOT) -> str:
    """Return a tag for the base image's substitutes, which depends on everything that they are made of."""
    made_of = [SUITE, SUITE_PYTHON, _PACKAGES, _BUILD_PACKAGES, *_wheels_wanted(root), (root / "constraints.txt").read_text()]
    return hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:12]


def build_images(client: docker.DockerClient) -> dict[str, Any]:
    """Build both targets of the Dockerfile, with the tags `ottla` and `ottla-audit`; return the built images by tag.

    Raises ImageNotFound without a base image, RuntimeError with the end of the log if a build fails.
    """
    arguments = {name: os.environ[name] for name in ("BASE_IMAGE", "BUILD_IMAGE") if name in os.environ}
    base = client.images.get(arguments.get("BASE_IMAGE", BASE))
    made = {}
    for target, tag in (("broker", "ottla"), ("audit", "ottla-audit")):
        try:
            made[target], _ = client.images.build(path=str(ROOT), target=target, tag=tag, buildargs=arguments, rm=True)
        except BuildError as error:
            raise RuntimeError("".join(line.get("stream", "") for line in error.build_log)[-2000:]) from error
        print(f"image {tag}: {made[target].attrs['Size'] / 1e6:.0f} MB")
    print(f"of which the base {base.tags[0]}: {base.attrs['Size'] / 1e6:.0f} MB")
    return made


def compose_command() -> list[str] | None:
    """Return the command of Docker Compose; None if it is not installed."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None


def _make_stand_ins(tag: str) -> None:
    """Make two images: one with Python, and one that also has a compiler and the wheels. In the second, pip installs only from those
    wheels."""
    WORK.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as directory:
        root = Path(directory) / "root"
        _run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, str(root))
        _import(root, STAND_IN, tag)
        apt = f"apt-get update -qq && apt-get install -y -qq --no-install-recommends {_BUILD_PACKAGES}"
        _run("chroot", str(root), "sh", "-c", apt, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        _download_wheels(root / "wheels")
        (root / "etc/pip.conf").write_text("[global]\nno-index = true\nfind-links = /wheels\n")
        _import(root, STAND_IN_BUILD, tag)


def _wheels_wanted(root: Path) -> list[str]:
    """Return the requirements of all packages that the Dockerfile installs with pip."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    chosen = re.findall(r"ottla-\*\.whl\)\[([a-z,]+)\]", (root / "Dockerfile").read_text())
    extras = [project["project"]["optional-dependencies"][name] for name in ",".join(chosen).split(",")]
    return [*project["project"]["dependencies"], *chain(*extras), *project["build-system"]["requires"], "wheel"]


def _download_wheels(directory: Path) -> None:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", f"--python-version={SUITE_PYTHON}"]
    _run(*pip, "-c", str(ROOT / "constraints.txt"), "-d", str(directory), *_wheels_wanted(ROOT))


def _import(root: Path, name: str, tag: str) -> None:
    archive = root.with_suffix(".tar")
    leave_out = ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")
    _run("tar", "-C", str(root), *(f"--exclude=./{each}" for each in leave_out), "-cf", str(archive), ".")
    client = docker.from_env(timeout=600)
    client.api.import_image_from_file(str(archive), repository=name, tag=tag)
    client.close()
    archive.unlink()


def _run(*argv: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")


def main(argv: Sequence[str]) -> int:
    """Run a command with an engine and the base images; return its exit code."""
    try:
        with engine() as environment:
            return subprocess.run(argv, check=False, env={**environment, **base_images()}).returncode
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
