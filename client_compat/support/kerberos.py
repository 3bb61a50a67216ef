"""A private Kerberos realm: MIT Kerberos' KDC on this machine, with principals and their keytabs.

Rules:
- The KDC listens only on loopback, and is ended by its process id.
- All state of the realm is in one directory. The machine's own Kerberos configuration is not read.
- A program uses the realm through the variables of `environment`. A process can use only one realm at a time.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from client_compat.support.ports import free_port

HOST = "127.0.0.1"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE, OTHER_SERVICE = "kafka/localhost", "http/localhost"
PRINCIPALS = (SERVICE, OTHER_SERVICE, "ann", "bob", "eve", "Cleo/admin", "dan/a/b", "gus/x")
"""The principals of the realm that the comparison with Apache Kafka uses."""
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_SBIN = ("/usr/sbin", "/usr/local/sbin", "/sbin")
_TIMEOUT_S = 30.0
_LOOK_S = 0.01


class KerberosMissing(RuntimeError):
    """Raised when the programs of MIT Kerberos' KDC are not installed."""


@dataclass(slots=True)
class Realm:
    """A Kerberos realm with the given principals, used as a context manager. Entering the context creates `directory` and starts the KDC;
    it raises `KerberosMissing` if the KDC's programs are not installed."""

    directory: Path
    principals: Sequence[str]
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The realm's unique name. It is unique because a process caches tickets by the realm's name."""
        return f"R{self.port}.TEST"

    @staticmethod
    def look_for_programs() -> None:
        """Raise `KerberosMissing` unless the KDC's programs are installed."""
        for name in _PROGRAMS:
            _program(name)

    @property
    def config(self) -> Path:
        """The path of the realm's krb5.conf."""
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for programs that use this realm."""
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
            "KRB5CCNAME": f"FILE:{self.directory / 'tickets'}",
        }

    def keytab(self, principal: str) -> Path:
        """Return the path of the keytab file of `principal`, one of `principals`, given without the realm."""
        return self.directory / f"{principal.replace('/', '_')}.keytab"

    def tickets(self, principal: str) -> str:
        """Return the name of the ticket cache of one of `principals`. It is a file, because a process has only one memory cache for all
        realms."""
        return f"FILE:{self.keytab(principal).with_suffix('.tickets')}"

    def jaas(self, principal: str, options: str = "") -> str:
        """Return the JAAS configuration of one of `principals`, for a broker or a Java client."""
        keys = f'useKeyTab=true storeKey=true keyTab="{self.keytab(principal)}" principal="{principal}@{self.name}"'
        return f"{MODULE} required {keys} {options};"

    def __enter__(self) -> Realm:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write()
        self._run("kdb5_util", "create", "-r", self.name, "-s", "-P", "master")
        made = "".join(f"addprinc -randkey {each}\nktadd -k {self.keytab(each)} {each}\n" for each in self.principals)
        self._run("kadmin.local", "-r", self.name, text=made)
        with (self.directory / "kdc.out").open("ab") as output:
            argv = [_program("krb5kdc"), "-n", "-r", self.name]
            self._process = subprocess.Popen(argv, env=self._env(), stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def give_new_key(self, principal: str) -> None:
        """Change the key of one of `principals`, and replace its old key in the principal's keytab."""
        self.keytab(principal).unlink()
        self._run("kadmin.local", "-r", self.name, text=f"ktadd -k {self.keytab(principal)} {principal}\n")

    def request_count(self) -> int:
        """Return how many ticket-granting tickets the KDC has issued, according to its log."""
        return (self.directory / "kdc.log").read_text().count("AS_REQ")

    def pause(self) -> None:
        """Send SIGSTOP to the KDC: it still receives requests, but answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT to the KDC that `pause` stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _env(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _run(self, program: str, *arguments: str, text: str = "") -> None:
        subprocess.run(
            [_program(program), *arguments], env=self._env(), input=text, text=True, capture_output=True, timeout=_TIMEOUT_S, check=True
        )

    def _wait(self) -> None:
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the KDC does not listen: {(self.directory / 'kdc.out').read_text()}")
            time.sleep(_LOOK_S)  # there is no other sign of readiness

    def _write(self) -> None:
        self.config.write_text(
            f"""[libdefaults]
default_realm = {self.name}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{self.name} = {{
  kdc = {HOST}:{self.port}
}}
[logging]
kdc = FILE:{self.directory / "kdc.log"}
"""
        )
        (self.directory / "kdc.conf").write_text(
            f"""[kdcdefaults]
kdc_listen = {HOST}:{self.port}
kdc_tcp_listen = {HOST}:{self.port}
[realms]
{self.name} = {{
  database_name = {self.directory / "principal"}
  key_stash_file = {self.directory / "stash"}
  acl_file = {self.directory / "acl"}
}}
"""
        )


def _program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *_SBIN)))
    if found is None:
        packages = "krb5-kdc krb5-admin-server"
        raise KerberosMissing(f"{name} is not installed (Debian, Ubuntu: 'sudo apt-get install {packages}', or 'make kerberos')")
    return found


@contextmanager
def in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process, which its Kerberos library reads, until the context ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
