"""The current settings of share groups, from the metadata and the broker's settings."""

from __future__ import annotations

from ottla.broker.cluster.catalog import Catalog
from ottla.broker.cluster.features import dead_letters_enabled
from ottla.broker.cluster.image import MetadataImage, ResourceType
from ottla.broker.configs.broker_config import BrokerConfigs
from ottla.broker.configs.group_config import share_settings
from ottla.broker.core.settings import BrokerSettings
from ottla.broker.share.settings import ShareSettings


class GroupSettings:
    """A callable that returns a share group's current settings. A group's settings are computed once for each metadata image and then
    cached, because every acquisition of records needs them. All groups without settings of their own have one entry in the cache, because a
    member of a share session can name any group id.
    """

    def __init__(self, catalog: Catalog, broker_configs: BrokerConfigs) -> None:
        self._catalog = catalog
        self._broker_configs = broker_configs
        self._known: dict[str | None, ShareSettings] = {}
        """By group id; None: groups without settings of their own."""
        self._image: MetadataImage | None = None
        self._settings: BrokerSettings | None = None

    def __call__(self, group_id: str) -> ShareSettings:
        image, settings = self._catalog.image, self._broker_configs.settings
        if image is not self._image or settings is not self._settings:
            self._known, self._image, self._settings = {}, image, settings
        known = self._known.get(group_id)
        if known is None:
            overrides = self._catalog.configs(ResourceType.GROUP, group_id)
            key = group_id if overrides else None
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = share_settings(overrides, settings, dead_letters=dead_letters_enabled(image.features))
        return known
