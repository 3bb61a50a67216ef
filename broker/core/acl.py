"""The vocabulary of Kafka's ACLs: operations, resource types, pattern types and permissions, with their numbers in records and requests.

Source: KAFKA AclOperation, ResourceType, PatternType, AclPermissionType, AclEntry.supportedOperations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

from ottla.broker.core.config_keys import Validator, Value, one_of

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only supported value of `authorizer.class.name`, besides the empty one."""
WILDCARD: Final = "*"
"""In an ACL, `*` as the host means any host, and `*` as the name of a literal resource pattern means every resource of the type."""
EVERYBODY: Final = "User:*"
"""The principal of an ACL that applies to every principal."""
CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class Operation(IntEnum):
    """An operation on a resource, which an ACL allows or denies (KAFKA AclOperation)."""

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
    """The type of a resource that ACLs protect (KAFKA ResourceType). ANY occurs only in filters."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def java_name(self) -> str:
        """Return the resource type's name in the form of Kafka's audit log, such as `TransactionalId`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class Pattern(IntEnum):
    """How an ACL's resource name is matched (KAFKA PatternType). ANY and MATCH occur only in filters."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies (KAFKA AclPermissionType). ANY occurs only in filters."""

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
"""The operations that each resource type supports. An ACL may name another operation; it then has no effect."""


def bits(operations: Sequence[Operation]) -> int:
    """Return `operations` as the bit field in which responses contain the authorized operations (KIP-430)."""
    return sum(1 << operation for operation in operations)


AUTHORIZERS: Final = one_of("", STANDARD_AUTHORIZER)
"""Allowed values of `authorizer.class.name`. Any other value would name a Java class, which this broker cannot load."""


def super_users(text: str) -> list[str]:
    """Return the principals in `text`, the value of `super.users`. They are separated by semicolons, because certificate names contain
    commas."""
    return [user for each in text.split(";") if (user := each.strip())]


def _no_principal(value: Value) -> str | None:
    wrong = [user for user in super_users(str(value)) if not all(user.partition(":")[::2])]
    return f"expected a string in format principalType:principalName but got {wrong[0]}" if wrong else None


PRINCIPALS: Final = Validator(_no_principal)
"""Allowed values of `super.users`: each principal has a type and a name (KAFKA SecurityUtils.parseKafkaPrincipal)."""
