"""Writes docs/settings.md from the tables of settings: `make settings`. A contract test compares the page with the tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.broker.configs.group_config import GROUP_KEYS
from ottla.broker.core.config_keys import ConfigKey, render
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, TOPIC_KEYS
from ottla.broker.core.stored_settings import OF_CONTROLLERS
from ottla.broker.releases.release_behaviour import DEFAULT_RELEASE, default_behaviour

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
_HEAD: Final = """# Settings

<!-- written by `make settings` from broker/core/settings.py, topic_keys.py and stored_settings.py, and broker/configs/group_config.py -->

All settings have Kafka's names and meaning. [Running a broker](running-a-broker.md#settings) shows where to set them; the settings of TLS
and SASL are in [Security](security.md). Settings marked *Running* can be changed while the broker runs, as with `kafka-configs.sh`.

"""
_WITHOUT_EFFECT: Final = "A broker checks, stores and describes them, because tools set them."


def page() -> str:
    """Return the text of docs/settings.md, generated from the tables of settings."""
    stored = [key for key in STORED_SETTINGS.values() if key.name not in OF_CONTROLLERS]
    applied = [*BROKER_KEYS.values(), *(key for key in stored if key.has_effect)]
    sections = (
        _section("Of a broker", "", [key for key in applied if not key.cluster_only]),
        _section("Of a broker in a cluster", "Without `process.roles` they have no effect.", [key for key in applied if key.cluster_only]),
        _section("Of a controller", "", [key for key in STORED_SETTINGS.values() if key.name in OF_CONTROLLERS]),
        _section("Of a topic", "Each can be changed at any time.", TOPIC_KEYS.values()),
        _section("Of a group", "Each can be changed at any time.", GROUP_KEYS.values()),
        _section("Without effect", _WITHOUT_EFFECT, [key for key in stored if not key.has_effect]),
    )
    return _HEAD + "\n".join(sections)


def _section(title: str, text: str, keys: Iterable[ConfigKey]) -> str:
    head = f"## {title}\n\n" + (f"{text}\n\n" if text else "")
    return f"{head}| setting | type | default | |\n| --- | --- | --- | --- |\n{''.join(map(_row, sorted(keys)))}"


def _row(key: ConfigKey) -> str:
    doc = key.doc.replace("|", "\\|") + (" *Running.*" if key.dynamic and not key.synonyms else "")
    is_later = any(lacks(key.name) for lacks in (default_behaviour().lacks, default_behaviour().lacks_of_topics))
    if is_later:
        doc += f" *After {DEFAULT_RELEASE}: described only with [`--like`](releases.md#a-broker-that-is-like-another-release).*"
    return f"| `{key.name}` | {key.type.name.lower()} | {_default(key)} | {doc} |\n"


def _default(key: ConfigKey) -> str:
    if key.synonyms:
        return f"that of `{key.synonyms[0].name}`"
    text = render(key.default)
    return f"`{text}`" if text else ""


if __name__ == "__main__":
    PAGE.write_text(page())
