from __future__ import annotations

import pytest

from ottla.broker.security.principal_rules import NoRule, PrincipalRules

NAME = "CN=kafka1,OU=ServiceUsers,O=Unknown,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", NAME, NAME),
        (r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", NAME, "kafka1"),
        (r"RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/L, DEFAULT", NAME, "kafka1@serviceusers"),
        (r"RULE:^CN=([^,]+).*$/$1/U", NAME, "KAFKA1"),
        (r"RULE:^CN=x$/never/, RULE:^.*OU=Service.*$/second/,DEFAULT", NAME, "second"),
        (r"RULE:^CN=(.*?),.*$/$1@$4/", NAME, "kafka1@$4"),
        (r"RULE:^CN=(.*?),.*$/$12/", NAME, "kafka12"),
        (r"RULE:^CN=(.*?),.*$/\$1/", NAME, "$1"),
        (r"RULE:^CN=(?<user>.*?),.*$/$1 ${user}/", NAME, "kafka1 kafka1"),
        (r"RULE:.*/x/", NAME, "xx"),
        (r"RULE:^CN=a\/b$/slash/,DEFAULT", "CN=a/b", "slash"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_is_applied(rules: str, name: str, principal: str) -> None:
    assert PrincipalRules(rules).name_for(name) == principal


def test_a_name_without_a_matching_rule_is_rejected() -> None:
    with pytest.raises(NoRule, match="No rules apply to CN=other"):
        PrincipalRules("RULE:^CN=kafka.*$/kafka/").name_for("CN=other")


@pytest.mark.parametrize(("rules", "name"), [(r"RULE:^CN=(\w+)$/$1/", "CN=ren\u00e9"), (r"RULE:(?i)^cn=(kate)$/$1/L", "CN=\u212aate")])
def test_word_characters_and_case_insensitivity_are_ascii_only(rules: str, name: str) -> None:
    """The second name has the Kelvin sign instead of a K."""
    with pytest.raises(NoRule):
        PrincipalRules(rules).name_for(name)


@pytest.mark.parametrize(
    "rules",
    [
        r"RULE:CN=(.*/$1/",
        r"RULE:^CN=[a-z&&[^b]]+$/x/",
        r"RULE:^CN=\p{Alpha}+$/x/",
        r"RULE:x/y",
        "NOTHING",
        "RULE:^CN=x$/$1/",
        "RULE:^CN=(x)$/$user/",
        "RULE:^CN=(x)$/${user}/",
        "RULE:^CN=(x)$/x$/",
    ],
)
def test_an_invalid_rule_is_rejected_at_the_start(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalRules(rules)
