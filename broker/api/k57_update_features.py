"""UpdateFeatures (key 57), versions 0-2, on a standalone node, with the rules of a cluster's controller (KIP-584, KIP-778).

A changed level is in force at once, and stored. If the setting `transaction.version` is given, it applies again at the next start.
"""

from __future__ import annotations

from ottla.broker.api.access import for_cluster
from ottla.broker.api.controller_features import update
from ottla.broker.core.acl import Operation

handle = for_cluster(Operation.ALTER, update)
