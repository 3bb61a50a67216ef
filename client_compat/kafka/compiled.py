"""Compiles this project's own Java classes that run beside Kafka's, once, into the directory of Kafka's jars."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from client_compat.kafka.jars import CACHE, KafkaMissing, jars

HERE = Path(__file__).parent
COMPILE_TIMEOUT_S = 300


def compiled(name: str, directory: Path = HERE) -> Path:
    """Return the directory with the classes of `<name>.java`, a source file in `directory`. The source is compiled with Kafka's jars if
    that was not done before.

    Raises `KafkaMissing` without jars or a JDK, or if the source does not compile.
    """
    source, places = directory / f"{name}.java", jars()
    target = CACHE / f"{places.name}-{name}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if target.is_dir():
        return target
    javac = shutil.which("javac")
    if javac is None:
        raise KafkaMissing("there is no JDK here (Debian, Ubuntu: openjdk-17-jdk-headless)")
    with tempfile.TemporaryDirectory(dir=CACHE) as unfinished:
        argv = [javac, "-nowarn", "-d", unfinished, "-cp", f"{places}/*", str(source)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise KafkaMissing(f"{source.name} cannot be compiled: {done.stderr}")
        if not target.is_dir():
            shutil.copytree(unfinished, target)
    return target
