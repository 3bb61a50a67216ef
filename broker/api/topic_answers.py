"""What the handlers of topics share: the operations a client may do, and how a refusal becomes two fields.

Nobody is denied anything until there are ACLs, so "authorized operations" are all that Kafka knows for the kind of resource (`AclEntry`).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.core.rejected import Rejected


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE = 3, 4, 5, 6, 7, 8
_CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = 9, 10, 11, 12

TOPIC_OPERATIONS: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = _bits(_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE)


def error_fields(error: Rejected | None) -> tuple[int, str | None]:
    """`error_code` and `error_message`: 0 and null when there is no error, a null message when the code says it all."""
    return (0, None) if error is None else (error.code, error.message or None)
