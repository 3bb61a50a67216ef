"""Lists which APIs, features and settings of an Apache Kafka release Ottla (this broker) offers, and which ones it lacks. The command
`ottla releases` and docs/releases.md show the lists.

Everything is derived from what Ottla declares: the APIs (`api_table`), the features (`cluster/features`) and the settings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from ottla.broker.api.routes import broker_routes
from ottla.broker.cluster.features import SUPPORTED
from ottla.broker.configs.group_config import GROUP_KEYS
from ottla.broker.core.config_keys import ConfigKey
from ottla.broker.core.ignored_settings import is_ignored
from ottla.broker.core.settings import BROKER_KEYS, STORED_SETTINGS, TOPIC_KEYS, security_setting
from ottla.broker.core.topic_keys import OLDER_TOPIC_KEYS
from ottla.broker.releases.changes import Change, changes
from ottla.broker.releases.release_behaviour import ReleaseBehaviour
from ottla.broker.releases.table import ReleaseTable
from ottla.protocol.api_keys import ApiKey

WITHOUT_EFFECT: Final = "without effect"
"""The text with which a list of settings marks those that are accepted but have no effect."""
COLUMN: Final = "unserved"
"""The name of the column with the result of `unserved_counts`, in the list of releases that `ottla releases` prints."""


def unserved(like: ReleaseBehaviour) -> Iterator[Change]:
    """Yield each API, feature or setting of the Kafka release `like` that Ottla lacks, or offers with fewer versions or levels.

    In a yielded `Change`, `before` is the release's value and `after` is Ottla's.
    """
    yield from changes(like.table, offered(like))


def unserved_counts(like: ReleaseBehaviour) -> str | None:
    """Return the number of items of each kind that `unserved` yields, as in `APIs 3, features 2, settings 116`; None if there are none."""
    counts = Counter(change.kind.split()[-1] + "s" for change in unserved(like))
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or None


def offered(like: ReleaseBehaviour) -> ReleaseTable:
    """Return the APIs, features and settings of the Kafka release `like`, reduced to those that Ottla offers."""
    apis = {
        ApiKey(key).camel_case: (route.advertised_min, route.max_version) for key, route in broker_routes(telemetry=True, like=like).items()
    }
    features = {name: like.levels(name, *levels) for name, levels in SUPPORTED.items()}
    return replace(
        like.table,
        apis=apis,
        features={name: (*levels, like.new_level(name, levels[1])) for name, levels in features.items() if levels is not None},
        broker_settings=_known({**STORED_SETTINGS, **BROKER_KEYS}, like.table.broker_settings),
        topic_settings=_known({**OLDER_TOPIC_KEYS, **TOPIC_KEYS}, like.table.topic_settings),
        group_settings=_known(GROUP_KEYS, like.table.group_settings),
    )


def _known(keys: Mapping[str, ConfigKey], settings: Mapping[str, str | None]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name, default in settings.items():
        key = keys.get(name) or security_setting(name)
        if key is not None and key.has_effect:
            found[name] = default
        elif key is not None or is_ignored(name):
            found[name] = WITHOUT_EFFECT
    return found
