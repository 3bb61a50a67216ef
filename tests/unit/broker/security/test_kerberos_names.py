"""Kerberos name rules. The first three tests have the cases of Kafka's own KerberosNameTest and KerberosRuleTest."""

from __future__ import annotations

import pytest

from ottla.broker.security.kerberos_names import KerberosName, NoShortName, ShortNames

PLAIN = [r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g", r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g", "DEFAULT"]
LOWER = [
    "RULE:[1:$1]/L",
    "RULE:[2:$1](Test.*)s/ABC///L",
    "RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g/L",
    "RULE:[2:$1]/L",
    "DEFAULT",
]
UPPER = [rule.replace("/L", "/U") for rule in LOWER]


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (PLAIN, "App.service-name/example.com@REALM", "service-name"),
        (PLAIN, "App.service-name@REALM", "service-name"),
        (PLAIN, "user/host@REALM", "user"),
        (LOWER, "User@REALM", "user"),
        (LOWER, "TestABC/host@FOO.COM", "test"),
        (LOWER, "ABC_User_ABC/host@FOO.COM", "xyz_user_xyz"),
        (LOWER, "App.SERVICE-name/example.com@REALM", "service-name"),
        (LOWER, "User/root@REALM", "user"),
        (UPPER, "User@REALM", "USER"),
        (UPPER, "TestABC/host@FOO.COM", "TEST"),
        (UPPER, "ABC_User_ABC/host@FOO.COM", "XYZ_USER_XYZ"),
        (UPPER, "App.SERVICE-name/example.com@REALM", "SERVICE-NAME"),
        (["RULE:[2:$2-$1.$0]"], "a/b@REALM", "b-a.REALM"),
        (["RULE:[2:$1](x.*)", "RULE:[2:$1.$2]"], "a/b@REALM", "a.b"),
        (["RULE:[1:$1]s/a/-/"], "banana@REALM", "b-nana"),
        ([r"RULE:[1:$1]s/(a)(n)/$2\$/g"], "banana@REALM", "bn$n$a"),
        (["RULE:[3:$1]", "RULE:[0:$7]", "DEFAULT"], "a@REALM", "a"),
        (PLAIN, "no-realm/at-all", "no-realm/at-all"),
    ],
)
def test_the_first_matching_rule_maps_a_principal_to_a_user(rules: list[str], principal: str, user: str) -> None:
    assert ShortNames(rules, "REALM").of(principal) == user


@pytest.mark.parametrize(
    "rule",
    [
        *("default", "DEFAUL", "DEFAULT/L", "DEFAULT/g", "rule:[1:$1]", "RULE:[1:$1]/L/U", "RULE:[1:$1]/LU", "RULE:[1:$1/L", ""),
        *("RULE:[1:$1]/l", "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g", "RULE:[:$1]", "RULE:[9999999999:$1]", "RULE:[1:$1](()"),
        *("RULE:[1:$1]s/a/$1/", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$x]", "RULE:[1:$99999999999]", "RULE:[1:$1](a[b&&[^c]])"),
    ],
)
def test_an_invalid_rule_is_rejected_at_the_start(rule: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        ShortNames([rule], "REALM")


def test_a_principal_has_at_most_two_components_and_one_realm() -> None:
    assert KerberosName.parse("a/b@R") == ("a", "b", "R")
    assert KerberosName.parse("a@R") == ("a", None, "R")
    for principal in ("a/b/c@R", "a@b@R", "a/b@R/c"):
        with pytest.raises(ValueError, match="Malformed Kerberos name"):
            KerberosName.parse(principal)


def test_a_principal_without_a_matching_rule_or_simple_name_is_rejected() -> None:
    with pytest.raises(NoShortName, match=r"No rules apply to a@OTHER, rules \[DEFAULT, RULE:"):
        ShortNames(["DEFAULT", "RULE:[2:$1]"], "REALM").of("a@OTHER")
    with pytest.raises(NoShortName, match="Non-simple name a@OTHER after auth_to_local rule"):
        ShortNames(["RULE:[1:$1@$0]", "RULE:[1:$1]"], "REALM").of("a@OTHER")
