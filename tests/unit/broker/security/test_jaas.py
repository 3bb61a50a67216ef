from __future__ import annotations

import pytest

from ottla.broker.security.jaas import JaasError, LoginFile, login_modules, sections

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(text: str) -> dict[str, str]:
    (entry,) = login_modules(text)
    assert entry.name == PLAIN
    return dict(entry.options)


def test_a_setting_is_parsed_with_comments_quotes_and_escapes() -> None:
    text = f"""{PLAIN} required \\
        username="admin" password='it is' // not a word
        /* user_eve="x" */
        user_ann="p;a\\"ss\\u" user_bob=plain-word_1.2 user_$x="\\101\\n";"""
    assert options(text.replace("\\\n", "\n")) == {
        "username": "admin",
        "password": "it is",
        "user_ann": 'p;a"ssu',
        "user_bob": "plain-word_1.2",
        "user_$x": "A\n",
    }


def test_a_flag_is_case_insensitive_and_several_modules_can_follow() -> None:
    assert [entry.options for entry in login_modules(f'{PLAIN} Required a="1"; {PLAIN} sufficient;')] == [{"a": "1"}, {}]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Login module not specified in JAAS config"),
        (PLAIN, "Login module control flag not specified in JAAS config"),
        (f"{PLAIN} always;", "Invalid login module control flag 'always' in JAAS config"),
        (f"{PLAIN} 1;", "Login module control flag is not available in the JAAS config"),
        (f'{PLAIN} required a="1"', "JAAS config entry not terminated by semi-colon"),
        (f"{PLAIN} required user_ann=12secret;", "Value not specified for key 'user_ann' in JAAS config"),
        (f"{PLAIN} required user_ann;", "Value not specified for key 'user_ann' in JAAS config"),
        (f"{PLAIN} required user_ann=my secret;", "Value not specified for a key in JAAS config"),
        (f"{PLAIN} required user_ann=/secret;", "Value not specified for key 'user_ann' in JAAS config"),
    ],
)
def test_invalid_jaas_is_rejected_in_kafkas_words_without_the_values(text: str, words: str) -> None:
    with pytest.raises(JaasError) as caught:
        login_modules(text)
    assert str(caught.value) == words


FILE = f"""
KafkaServer {{
   {PLAIN} required user_ann="general";
}};
secure.KafkaServer {{ {PLAIN} required user_ann="own"; }};
"""


def test_a_listener_uses_its_own_section_or_the_shared_one() -> None:
    file = LoginFile("/etc/jaas.conf", {"/etc/jaas.conf": FILE}.__getitem__)
    assert [entry.options for entry in file.entries("SECURE")] == [{"user_ann": "own"}]
    assert [entry.options for entry in file.entries("OTHER")] == [{"user_ann": "general"}]


def test_a_missing_section_is_reported_with_the_names_that_were_tried() -> None:
    expected = (
        "Could not find a 'KafkaServer' or 'secure.KafkaServer' entry in the JAAS configuration. "
        "System property 'java.security.auth.login.config' is not set"
    )
    with pytest.raises(JaasError) as caught:
        LoginFile(None, str).entries("SECURE")
    assert str(caught.value) == expected


@pytest.mark.parametrize("text", ["KafkaServer", f"KafkaServer {{ {PLAIN} required;", f"KafkaServer {{ {PLAIN} required; }}"])
def test_a_file_with_an_unterminated_section_is_rejected(text: str) -> None:
    with pytest.raises(JaasError, match="section"):
        sections(text)
