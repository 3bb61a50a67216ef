"""The words of an access control list, by the numbers that records and requests give them.

Source: KAFKA AclOperation, ResourceType, PatternType, AclPermissionType, AclEntry.supportedOperations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.broker.core.config_keys import Validator, Value, one_of

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one authorizer there is: its rules are obeyed."""
WILDCARD: Final = "*"
"""Every host; as the name of a literal pattern every resource of the type."""
EVERYBODY: Final = "User:*"
"""The principal of an ACL that is for everybody."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Operation(IntEnum):
    """What is done with a resource."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """What something is done with."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def told(self) -> str:
        """As a log line names it: TransactionalId."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Pattern(IntEnum):
    """How a name is meant; ANY and MATCH are for filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What an ACL does; ANY is for filters."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_ON_CONFIGS: Final = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)

SUPPORTED: Final[Mapping[Resource, Sequence[Operation]]] = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        *_ON_CONFIGS,
    ),
    Resource.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE, *_ON_CONFIGS),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        *_ON_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""What can be done with each; an ACL may name another operation, and means nothing then."""


def bits(operations: Sequence[Operation]) -> int:
    """Operations as responses tell them (KIP-430)."""
    return sum(1 << operation for operation in operations)


AUTHORIZERS: Final = one_of("", STANDARD_AUTHORIZER)
"""Any other would ask a class of Java's, and nobody here."""


def super_users(text: str) -> list[str]:
    """Principals parted by semicolons: the names of certificates have commas."""
    return [user for each in text.split(";") if (user := each.strip())]


def _no_principal(value: Value) -> str | None:
    wrong = [user for user in super_users(str(value)) if not all(user.partition(":")[::2])]
    return f"expected a string in format principalType:principalName but got {wrong[0]}" if wrong else None


PRINCIPALS: Final = Validator(_no_principal)
"""Super users of which each has a type and a name (KAFKA SecurityUtils.parseKafkaPrincipal)."""
