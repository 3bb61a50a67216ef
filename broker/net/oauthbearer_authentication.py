"""The OAUTHBEARER token validator of a listener, built from its settings at the start. An invalid setting stops the start.

A setting may be given for the mechanism of the listener, for the listener, or for the broker; the most specific one wins.

Up to Kafka 4.3, a listener without `expected.audience` accepts only tokens without an audience, and a listener without `expected.issuer`
accepts tokens of any issuer. Since 4.4, each of these settings is required, unless `allow.unverified.audience` or
`allow.unverified.issuer` is true.

Source: KAFKA OAuthBearerValidatorCallbackHandler, BrokerJwtValidator, VerificationKeyResolverFactory, ConfigurationUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ottla.broker.core.clock import Clock
from ottla.broker.core.config_keys import Value
from ottla.broker.core.listener_security import ListenerSecurity
from ottla.broker.core.peer_log import PEERS
from ottla.broker.core.security_keys import ALLOWED_URLS
from ottla.broker.core.settings_load import SettingsError
from ottla.broker.core.timers import Timers
from ottla.broker.net.jwks import FetchedKeys, FileKeys, RefreshIntervals, fetcher
from ottla.broker.security.signed_tokens import ClaimRules, KeySource, SignedTokenValidator

logger, peer_logger = logging.getLogger(__name__), logging.getLogger(PEERS)

_PREFIX: Final = "sasl.oauthbearer."
_URL: Final = f"{_PREFIX}jwks.endpoint.url"


class _Settings:
    """The OAUTHBEARER settings of one listener."""

    def __init__(self, listener: str, security: ListenerSecurity) -> None:
        self.listener, self._security = listener, security

    def value(self, name: str) -> Value:
        own = self._security.of_mechanism("OAUTHBEARER", _PREFIX + name)
        return self._security.value(_PREFIX + name) if own is None else own

    def text(self, name: str) -> str | None:
        return str(self.value(name) or "").strip() or None

    def number(self, name: str, low: int = 0) -> int:
        value = self.value(name)
        if not isinstance(value, int) or value < low:
            raise SettingsError(f"{_PREFIX}{name}={value} at {self.listener}: must be at least {low}")
        return value

    def claim(self, name: str) -> str:
        found = self.text(name)
        if found is None:
            raise SettingsError(f"{_PREFIX}{name} is empty at {self.listener}")
        return found


def signed_tokens(
    listener: str, security: ListenerSecurity, options: Mapping[str, str], clock: Clock, timers: Timers
) -> SignedTokenValidator:
    """Return the validator of a listener's signed OAUTHBEARER tokens. `options` are those of the login module. Blocks while it fetches the
    keys that verify the tokens. Raises SettingsError for an invalid setting, or if the keys cannot be fetched."""
    settings = _Settings(listener, security)
    audiences, issuer = settings.value("expected.audience"), settings.text("expected.issuer")
    assert isinstance(audiences, tuple)
    strict = security.release_behaviour.requires_token_claims
    if strict:
        _check_claim(settings, "audience", is_expected=bool(audiences))
        _check_claim(settings, "issuer", is_expected=issuer is not None)
    rules = ClaimRules(
        frozenset(audiences) if audiences or not strict else None,
        issuer,
        settings.claim("scope.claim.name"),
        settings.claim("sub.claim.name"),
        settings.number("clock.skew.seconds"),
    )
    source = _source(settings, security, options, clock, timers)
    if not audiences and strict:
        logger.warning("%s at %s is empty: tokens of any audience are accepted", f"{_PREFIX}expected.audience", listener)
    elif not audiences:
        logger.warning(
            "%s at %s is empty: tokens with an audience are rejected, and tokens without one are accepted whatever they were issued for",
            f"{_PREFIX}expected.audience",
            listener,
        )
    if issuer is None:
        logger.warning(
            "%s at %s is empty: tokens of any issuer whose key is in the key set are accepted", f"{_PREFIX}expected.issuer", listener
        )
    return SignedTokenValidator(source, rules, clock.now_ms, partial(peer_logger.info, "Rejected an OAUTHBEARER token at %s: %s", listener))


def _check_claim(settings: _Settings, claim: str, *, is_expected: bool) -> None:
    """Raise SettingsError if neither `expected.<claim>` nor `allow.unverified.<claim>` is set, for the claim "audience" or "issuer". Call
    this for a broker that behaves like Kafka 4.4 or later, which requires one of them."""
    if not is_expected and not settings.value(f"allow.unverified.{claim}"):
        raise SettingsError(
            f"{_PREFIX}expected.{claim} is required at {settings.listener}, because the {claim} of tokens cannot be verified without it. "
            f"To accept tokens of any {claim}, set {_PREFIX}allow.unverified.{claim}=true"
        )


def _source(settings: _Settings, security: ListenerSecurity, options: Mapping[str, str], clock: Clock, timers: Timers) -> KeySource:
    url = settings.text("jwks.endpoint.url")
    if url is None:
        raise SettingsError(f"{_URL} is required at {settings.listener}: it is the URL of the keys that sign tokens")
    parts = urlsplit(url)
    if parts.scheme.lower() not in {"http", "https", "file"}:
        raise SettingsError(f"{_URL}={url} at {settings.listener}: allowed are http, https and file URLs")
    if url not in security.items(ALLOWED_URLS):
        raise SettingsError(
            f"Invalid value {url} for configuration {_URL}: The URL cannot be accessed due to restrictions. Update the system property "
            f"'{ALLOWED_URLS}' to allow the URL to be accessed (in KAFKA_OPTS as -D{ALLOWED_URLS}=..., or as a setting of that name)."
        )
    try:
        if parts.scheme.lower() == "file":
            return FileKeys(Path(parts.path))
        fetch = fetcher(url, options, lambda path: Path(path).read_bytes())
        return FetchedKeys(fetch, _refresh_intervals(settings), timers, clock.mono_ms)
    except (OSError, ValueError, HTTPException) as error:
        raise SettingsError(f"{_URL}={url} at {settings.listener}: the keys cannot be read: {error}") from error


def _refresh_intervals(settings: _Settings) -> RefreshIntervals:
    backoff_ms = settings.number("jwks.endpoint.retry.backoff.ms")
    return RefreshIntervals(
        settings.number("jwks.endpoint.refresh.ms", 1), backoff_ms, settings.number("jwks.endpoint.retry.backoff.max.ms", backoff_ms)
    )
