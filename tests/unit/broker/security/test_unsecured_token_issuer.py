from __future__ import annotations

import pytest

from ottla.broker.security.oauthbearer import UnsecuredTokenValidator
from ottla.broker.security.unsecured_token_issuer import UnsecuredTokenIssuer

NOW_MS = 1_700_000_000_000


def options(**given: str) -> dict[str, str]:
    return {f"unsecuredLogin{name}": text for name, text in given.items()}


def test_a_nodes_own_token_is_valid_until_it_expires() -> None:
    token = UnsecuredTokenIssuer(options(StringClaim_sub="node", ListClaim_scope=",a,b", LifetimeSeconds="60"), lambda: NOW_MS).issue()
    validated = UnsecuredTokenValidator({"unsecuredValidatorRequiredScope": "a b"}, lambda: NOW_MS).validate(token)
    assert validated == ("node", NOW_MS + 60_000)


def test_the_principal_claim_can_be_configured() -> None:
    token = UnsecuredTokenIssuer(options(PrincipalClaimName="who", StringClaim_who="node", NumberClaim_n="1.5"), lambda: NOW_MS).issue()
    validated = UnsecuredTokenValidator({"unsecuredValidatorPrincipalClaimName": "who"}, lambda: NOW_MS).validate(token)
    assert validated == ("node", NOW_MS + 3_600_000)


@pytest.mark.parametrize(
    "given",
    [{}, {"StringClaim_sub": " "}, {"StringClaim_sub": "a", "NumberClaim_exp": "1"}, {"StringClaim_sub": "a", "LifetimeSeconds": "x"}],
)
def test_options_without_a_valid_token_are_rejected(given: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 # the messages differ
        UnsecuredTokenIssuer(options(**given), lambda: NOW_MS)
