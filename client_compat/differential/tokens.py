"""Compare delegation tokens: the same users send both brokers the same requests, directly and with Kafka's tool, and log in with tokens.

Rules:
- Token ids and HMACs differ between the brokers; the comparison records whether they are valid. Times are relative to the token's issue
  time or its end, or to the moment between the request and its response, so that they do not depend on how long the scenario takes.
- After a change the client polls until it is visible, because an Apache Kafka node responds before it applies the change.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from client_compat.differential.normalise import Plain
from client_compat.differential.probe import Seen
from client_compat.differential.scenarios.common import until
from client_compat.kafka.tools import Tools
from client_compat.support.brokers import HOST
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.client import Client
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import k38_create_delegation_token as k38
from ottla.protocol.messages import k39_renew_delegation_token as k39
from ottla.protocol.messages import k40_expire_delegation_token as k40
from ottla.protocol.messages import k41_describe_delegation_token as k41
from ottla.protocol.messages.k03_metadata import MetadataRequest
from ottla.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from ottla.protocol.messages.k36_sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.protocol.schema import Message

SECRET = "of all nodes"
MINUTE_MS = 60_000
CLOCKS_MS = 1_000
"""The tolerance, in ms, for differences between the clocks of the brokers and of this process."""
HUGE_MS = 2**63 - 1
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Moment:
    """The interval in which a broker handled a request: from the sending of the request to the arrival of the response, in milliseconds."""

    sent_ms: float
    answered_ms: float

    def has(self, time_ms: float) -> bool:
        return self.sent_ms - CLOCKS_MS <= time_ms <= self.answered_ms + CLOCKS_MS

    def until(self, time_ms: int, token_end_ms: int | None = None) -> Plain:
        """Return a broker's time as text relative to this moment ("in 5 minutes"), or as "at the token's end" if it is `token_end_ms`.
        Values that are not times (0, -1) stay as they are."""
        if time_ms <= 0 or time_ms == token_end_ms:
            return time_ms if time_ms <= 0 else "at the token's end"
        minutes = round((time_ms - self.sent_ms) / MINUTE_MS, 2)
        for whole in (int(minutes), int(minutes) + 1):
            if self.has(time_ms - whole * MINUTE_MS):
                return f"in {whole} minutes"
        return f"in {minutes} minutes"


@dataclass(slots=True)
class TokenClients:
    """One of the compared brokers, and the users' connections to it. `port` requires SASL (PLAIN or SCRAM); `open_port` is plaintext,
    without authentication."""

    port: int
    open_port: int
    passwords: dict[str, str]
    seen: list[Seen] = field(default_factory=list)
    _clients: dict[str, Client] = field(default_factory=dict)
    _created_by_hmac: dict[bytes, k38.CreateDelegationTokenResponse] = field(default_factory=dict)
    _expiries: dict[str, int] = field(default_factory=dict)
    """The expiry timestamp that the broker last reported for each token, by token id."""

    def run(self) -> list[Seen]:
        """Send all requests of the comparison to the broker, and return the responses."""
        with self._users():
            self._created()
            self._renewed_and_ended()
            self._described()
            self._logged_in()
            self._unknown()
        return self.seen

    @contextmanager
    def _users(self) -> Iterator[None]:
        self._clients["nobody"] = Client(HOST, self.open_port)
        for user, password in self.passwords.items():
            client = self._clients[user] = Client(HOST, self.port)
            client.call(SaslHandshakeRequest("PLAIN"), 1)
            client.call(SaslAuthenticateRequest(f"\0{user}\0{password}".encode()), 2)
        try:
            yield
        finally:
            for client in self._clients.values():
                client.close()

    # --- requests ----------------------------------------------------------------------------------------------------------------

    def _created(self) -> None:
        for version in (1, 2, 3):
            for lasts_ms in (-1, 0, 5 * MINUTE_MS, HUGE_MS):
                self._create(f"for {lasts_ms} ms", "ann", k38.CreateDelegationTokenRequest(None, None, [], lasts_ms), version)
        self._create("empty owner", "ann", k38.CreateDelegationTokenRequest("", "", [], -1))
        self._create("of a group", "ann", k38.CreateDelegationTokenRequest("Group", "g", [], -1))
        for kind in ("Group", "", "user"):
            self._create(
                f"renewed by a {kind}", "ann", k38.CreateDelegationTokenRequest(None, None, [k38.CreatableRenewers(kind, "g")], -1)
            )
        twice = [k38.CreatableRenewers("User", name) for name in ("bob", "", "bob")]
        self._create("renewed by some", "ann", k38.CreateDelegationTokenRequest(None, None, twice, -1))

    def _renewed_and_ended(self) -> None:
        bobs = [k38.CreatableRenewers("User", "bob")]
        own, eves = (
            self._create(f"of {owner}", "ann", k38.CreateDelegationTokenRequest("User", owner, bobs, 60 * MINUTE_MS))
            for owner in ("ann", "eve")
        )
        proofs = {"own": bytes(own.hmac), "eve's": bytes(eves.hmac), "nobody's": b"x" * 64, "empty": b""}
        for name, proof in proofs.items():
            for user in ("ann", "bob"):
                for period_ms in (5 * MINUTE_MS, 0, -1, 2 * 60 * MINUTE_MS):
                    for version in (1, 2):
                        self._change(
                            f"{name}, by {user}, for {period_ms}", user, k39.RenewDelegationTokenRequest(proof, period_ms), version
                        )
                for period_ms in (5 * MINUTE_MS, HUGE_MS):
                    self._change(f"{name}, by {user}, in {period_ms}", user, k40.ExpireDelegationTokenRequest(proof, period_ms), 2)
        self._change("now", "ann", k40.ExpireDelegationTokenRequest(proofs["own"], 0), 2)
        for _ in until("its millisecond has passed"):
            if self._clients["ann"].call(k39.RenewDelegationTokenRequest(proofs["own"], 1), 2).error_code:
                break
        self._change("over", "ann", k39.RenewDelegationTokenRequest(proofs["own"], 1), 2)
        self._change("over, in a while", "ann", k40.ExpireDelegationTokenRequest(proofs["own"], MINUTE_MS), 2)
        for label in ("at once", "again"):
            self._change(label, "ann", k40.ExpireDelegationTokenRequest(proofs["own"], -1), 1)
            self._wait_until(lambda tokens: own.token_id not in tokens)

    def _described(self) -> None:
        owners: Sequence[Sequence[str] | None] = (None, [], ["ann"], ["bob"], ["eve", "nobody"])
        for names in owners:
            wanted = None if names is None else [k41.DescribeDelegationTokenOwner("User", name) for name in names]
            for version in (1, 2, 3):
                for user in ("ann", "bob"):
                    answer = self._clients[user].call(k41.DescribeDelegationTokenRequest(wanted), version)
                    self._note(f"of {names}, for {user}", answer, version, sorted(map(self._described_token, answer.tokens), key=str))

    def _logged_in(self) -> None:
        request = k38.CreateDelegationTokenRequest(None, None, [], 10 * MINUTE_MS)
        token = self._create("to log in", "ann", request)
        for mechanism in _HASHES:
            self._log_in("wrong", mechanism, token.token_id, b"x" * 64)
            self._log_in("unknown", mechanism, "nobody's", bytes(token.hmac))
            client = self._clients["by token"] = self._log_in("right", mechanism, token.token_id, bytes(token.hmac))
            self._refused("by token", bytes(token.hmac))
            self._note("served", client.call(MetadataRequest(topics=[]), 1), 1, "yes")
        self._change("at once", "ann", k40.ExpireDelegationTokenRequest(bytes(token.hmac), -1), 2)
        self._wait_until(lambda tokens: token.token_id not in tokens)
        self._log_in("ended", "SCRAM-SHA-256", token.token_id, bytes(token.hmac))

    def _unknown(self) -> None:
        self._refused("nobody", b"x" * 64)

    def _refused(self, user: str, proof: bytes) -> None:
        self._create("refused", user, k38.CreateDelegationTokenRequest("User", "eve", [k38.CreatableRenewers("Group", "g")], -1))
        self._change("refused", user, k39.RenewDelegationTokenRequest(proof, 1), 2)
        self._change("refused", user, k40.ExpireDelegationTokenRequest(proof, 1), 2)
        answer = self._clients[user].call(k41.DescribeDelegationTokenRequest(None), 3)
        self._note(f"refused to {user}", answer, 3, len(answer.tokens))

    # --- what is recorded ---------------------------------------------------------------------------------------------------------

    def _create(self, label: str, user: str, request: Message, version: int = 3) -> k38.CreateDelegationTokenResponse:
        answer: k38.CreateDelegationTokenResponse
        answer, moment = self._timed(user, request, version)
        if answer.token_id:
            self._created_by_hmac[bytes(answer.hmac)], self._expiries[answer.token_id] = answer, answer.expiry_timestamp_ms
            self._wait_until(lambda tokens: answer.token_id in tokens)
        began_ms = answer.issue_timestamp_ms
        details = {
            "owner": f"{answer.principal_type}:{answer.principal_name}",
            "requester": f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
            "lasts": answer.max_timestamp_ms - began_ms,
            "good for": answer.expiry_timestamp_ms - began_ms,
            "began": moment.until(began_ms),
            "proved": bytes(answer.hmac) == _proof_of(answer.token_id) if answer.token_id else bytes(answer.hmac).hex(),
        }
        self._note(f"{label}, by {user}", answer, version, details)
        return answer

    def _change(self, label: str, user: str, request: Any, version: int) -> None:
        answer, moment = self._timed(user, request, version)
        token = self._created_by_hmac.get(bytes(request.hmac))
        if answer.error_code == ErrorCode.NONE and token is not None:
            self._expiries[token.token_id] = answer.expiry_timestamp_ms
        if answer.error_code == ErrorCode.NONE and getattr(request, "expiry_time_period_ms", 0) >= 0:
            self._wait_until(lambda tokens: answer.expiry_timestamp_ms in {token.expiry_timestamp for token in tokens.values()})
        self._note(label, answer, version, moment.until(answer.expiry_timestamp_ms, token.max_timestamp_ms if token else None))

    def _timed(self, user: str, request: Message, version: int) -> tuple[Any, Moment]:
        sent_ms = time() * 1000
        answer = self._clients[user].call(request, version)
        return answer, Moment(sent_ms, time() * 1000)

    def _log_in(self, label: str, mechanism: str, token_id: str, proof: bytes) -> Client:
        client = self._clients[f"{label}, {mechanism}"] = Client(HOST, self.port)
        client.call(SaslHandshakeRequest(mechanism), 1)
        bare = f"n={token_id},r=fyko,tokenauth=true"
        sent_ms = time() * 1000
        answer: SaslAuthenticateResponse = client.call(SaslAuthenticateRequest(f"n,,{bare}".encode()), 2)
        if not answer.error_code:
            final = _final(_HASHES[mechanism], base64.b64encode(proof).decode(), bare, bytes(answer.auth_bytes).decode())
            answer = client.call(SaslAuthenticateRequest(final), 2)
        moment, lasts_ms = Moment(sent_ms, time() * 1000), answer.session_lifetime_ms
        ends_with_token = lasts_ms > 0 and moment.has(self._expiries.get(token_id, 0) - lasts_ms)
        self._note(
            f"{label}, {mechanism}", answer, 2, {"message": answer.error_message, "lasts": "as the token" if ends_with_token else lasts_ms}
        )
        return client

    def _described_token(self, token: k41.DescribedDelegationToken) -> Plain:
        return {
            "owner": f"{token.principal_type}:{token.principal_name}",
            "requester": f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
            "renewers": [f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
            "lasts": token.max_timestamp - token.issue_timestamp,
            "expires as answered": token.expiry_timestamp == self._expiries.get(token.token_id),
            "proved": bytes(token.hmac) == _proof_of(token.token_id),
        }

    def _wait_until(self, holds: Callable[[dict[str, k41.DescribedDelegationToken]], bool]) -> None:
        for _ in until("the change of a token is obeyed"):
            found = self._clients["ann"].call(k41.DescribeDelegationTokenRequest(None), 3).tokens
            if holds({token.token_id: token for token in found}):
                return

    def _note(self, label: str, answer: Any, version: int, details: Plain) -> None:
        code = ErrorCode(answer.error_code).name
        self.seen.append(Seen(label, ApiKey(answer.API_KEY).name, version, {"error": code, "told": details}))


def _proof_of(token_id: str) -> bytes:
    return hmac.digest(SECRET.encode(), token_id.encode(), "sha512")


def _final(name: str, password: str, bare: str, first: str) -> bytes:
    items = dict(item.split("=", 1) for item in first.split(","))
    salted = hashlib.pbkdf2_hmac(name, password.encode(), base64.b64decode(items["s"]), int(items["i"]))
    key = hmac.digest(salted, b"Client Key", name)
    without_proof = f"c=biws,r={items['r']}"
    signature = hmac.digest(hashlib.new(name, key).digest(), f"{bare},{first},{without_proof}".encode(), name)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


# --- Kafka's own tool --------------------------------------------------------------------------------------------------------------------


def by_kafkas_tool(directory: Path, *ports: int) -> list[list[Seen]]:
    """Run `kafka-delegation-tokens` against the broker at each port, as a user with PLAIN and with a token, and return its output."""
    with ThreadPoolExecutor(len(ports)) as pool:
        return list(pool.map(partial(_by_tool, directory), ports))


def _by_tool(directory: Path, port: int) -> list[Seen]:
    tools, seen = Tools(), list[Seen]()
    words: dict[str, str] = {}

    def run(who: str, jaas: str, *arguments: str) -> str:
        file = directory / f"tool-{port}.properties"
        mechanism = "PLAIN" if "plain" in jaas else "SCRAM-SHA-256"
        file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={_MODULES}.{jaas}\n")
        done = tools.run("kafka-delegation-tokens", "--bootstrap-server", f"{HOST}:{port}", "--command-config", str(file), *arguments)
        lines = [line for line in (done.out + done.err).splitlines() if line.strip() and not line.strip().startswith("at ")]
        output = "\n".join(lines)
        for word, stands_for in words.items():
            output = output.replace(word, stands_for)
        output = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "<time>", output)
        # drop the lines of other tokens
        output = "\n".join(line for line in output.splitlines() if "<id>" in line or "<time> " not in line)
        seen.append(Seen(f"{arguments[0]}, as {who}", "kafka-delegation-tokens", 0, {"code": done.code, "told": re.sub(" +", " ", output)}))
        return done.out

    ann = 'plain.PlainLoginModule required username="ann" password="pass word";'
    made = run("ann", ann, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    token_id, proof = made.splitlines()[-1].split()[:2]
    words |= {token_id: "<id>", proof: "<proof>"}
    seen[0] = Seen(seen[0].label, seen[0].api, 0, {"id": len(token_id), "proof": len(base64.b64decode(proof)), "by token": proof != ""})
    run("ann", ann, "--renew", "--renew-time-period", "60000", "--hmac", proof)
    run("ann", ann, "--describe", "--owner-principal", "User:bob")
    by_token = f'scram.ScramLoginModule required username="{token_id}" password="{proof}" tokenauth=true;'
    run("a token", by_token, "--expire", "--expiry-time-period", "-1", "--hmac", proof)
    run("ann", ann, "--expire", "--expiry-time-period", "-1", "--hmac", proof)
    return seen
