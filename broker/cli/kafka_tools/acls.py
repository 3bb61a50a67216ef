"""`kafka-acls`: list, add and remove access control lists (Kafka's AclCommand)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ottla.broker.cli.basics import CliError
from ottla.broker.cli.cluster import AdminClient, check
from ottla.broker.cli.kafka_tools.options import ToolParser, cluster_of, guarded
from ottla.broker.core.acl import CLUSTER_NAME, SUPPORTED, Operation, Pattern, Permission, Resource
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest

_NAMED: Final = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "delegation_token": Resource.DELEGATION_TOKEN,
    "user_principal": Resource.USER,
}
_PRODUCES: Final = {
    Resource.TOPIC: (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
_CONSUMES: Final = {Resource.TOPIC: (Operation.READ, Operation.DESCRIBE), Resource.GROUP: (Operation.READ,)}


class Named(NamedTuple):
    """A resource, or a filter for resources; `name` is None if the filter matches all names."""

    kind: Resource
    name: str | None
    pattern: Pattern

    def __str__(self) -> str:
        return f"ResourcePattern(resourceType={self.kind.name}, name={self.name}, patternType={self.pattern.name})"


class Entry(NamedTuple):
    """An access control entry of a resource: it allows or denies an operation to a principal whose client has the address `host`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return f"(principal={self.principal}, host={self.host}, operation={self.operation.name}, permissionType={self.permission.name})"


def parser() -> ToolParser:
    """Return the parser of the options of `kafka-acls`."""
    made = ToolParser("kafka-acls", "This tool helps to manage acls on kafka.")
    made.cluster_options()
    for name in ("--add", "--remove", "--list", "--cluster", "--producer", "--consumer", "--idempotent", "--force"):
        made.flag(name)
    for name in ("topic", "group", "transactional-id", "delegation-token", "user-principal"):
        made.listed(f"--{name}")
    for name in ("--operation", "--principal", "--allow-principal", "--deny-principal", "--allow-host", "--deny-host"):
        made.listed(name)
    made.add_argument("--resource-pattern-type", default="literal", type=str.lower, choices=[each.name.lower() for each in Pattern])
    return made


@guarded("Error while executing ACL command: ")
def main(argv: Sequence[str]) -> int:
    """Run `kafka-acls` with the arguments `argv`; return its exit code."""
    read = parser()
    options = read.read(argv)
    action = read.one_of(options, "add", "remove", "list")
    if action != "list" and not _resources(options):
        read.error("You must specify at least one resource: --topic <topic> or --cluster or --group <group> or --transactional-id <id>")
    if action == "add" and not options.allow_principal and not options.deny_principal:
        read.error("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    if action == "add" and _pattern(options) in {Pattern.ANY, Pattern.MATCH}:
        read.error(f"A '--resource-pattern-type' value of '{_pattern(options).name}' is not valid when adding acls.")
    if action == "add":
        for named, entries in _wanted(options).items():
            possible = [Operation.ALL, *SUPPORTED[named.kind]]
            if any(entry.operation not in possible for entry in entries):
                known = ", ".join(operation.name for operation in possible)
                read.error(f"ResourceType {named.kind.name} only supports operations [{known}]")
    with cluster_of(options) as cluster:
        {"add": _add, "remove": _remove, "list": _list}[action](cluster, options)
    return 0


def _pattern(options: argparse.Namespace) -> Pattern:
    return Pattern[options.resource_pattern_type.upper()]


def _resources(options: argparse.Namespace) -> list[Named]:
    pattern = _pattern(options)
    found = [Named(kind, name.strip(), pattern) for given, kind in _NAMED.items() for name in getattr(options, given)]
    if options.cluster or (options.idempotent and not options.producer):
        found.append(Named(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL))
    return found


def _wanted(options: argparse.Namespace) -> dict[Named, list[Entry]]:
    """Return the ACL entries that the options name, by resource. An empty list means that the options name only the resource, so that all
    of its entries are meant."""
    found: dict[Named, list[Entry]] = {}
    for shorthand, operations_of in ((options.producer, _PRODUCES), (options.consumer, _CONSUMES)):
        for named in _resources(options) if shorthand else ():
            for entry in _entries(options, operations_of.get(named.kind, ())):
                found.setdefault(named, []).append(entry)
    if options.producer and options.idempotent:
        found[Named(Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL)] = _entries(options, (Operation.IDEMPOTENT_WRITE,))
    if not options.producer and not options.consumer:
        operations = [_operation(each) for each in options.operation or ["ALL"]]
        found = {named: _entries(options, operations) for named in _resources(options)}
    return {named: list(dict.fromkeys(entries)) for named, entries in found.items()}


def _operation(text: str) -> Operation:
    name = "".join(f"_{letter}" if at and letter.isupper() and text[at - 1].islower() else letter for at, letter in enumerate(text.strip()))
    try:
        return Operation[name.upper().replace("-", "_")]
    except KeyError:
        raise CliError(f"Operation {text} is not known") from None


def _entries(options: argparse.Namespace, operations: Iterable[Operation]) -> list[Entry]:
    given = (
        (Permission.ALLOW, options.allow_principal, options.allow_host),
        (Permission.DENY, options.deny_principal, options.deny_host),
    )
    requested = list(operations)
    return [
        Entry(_principal(principal), host.strip(), operation, permission)
        for permission, principals, hosts in given
        for principal in principals
        for operation in requested
        for host in hosts or ["*"]
    ]


def _principal(text: str) -> str:
    if ":" not in text:
        raise CliError(f"expected a string in format principalType:principalName but got {text}")
    return text.strip()


def _add(cluster: AdminClient, options: argparse.Namespace) -> None:
    for named, entries in _wanted(options).items():
        there = _described(cluster, named).get(named, [])
        for entry in entries:
            if entry in there:
                print(f"Acl (pattern={named}, entry={entry}) already exists.")
        new = [entry for entry in entries if entry not in there]
        if not new:
            continue
        print(f"Adding ACLs for resource `{named}`: \n " + "\n".join(f"\t{entry}" for entry in new) + "\n")
        request = CreateAclsRequest([AclCreation(named.kind, named.name or "", named.pattern, *entry) for entry in new])
        for result in cluster.any(request).results:
            check(result.error_code, "The broker rejected the request", result.error_message)


def _remove(cluster: AdminClient, options: argparse.Namespace) -> None:
    for named, entries in _wanted(options).items():
        shown = " " + "\n".join(f"\t{entry}" for entry in entries)
        question = (
            f"Are you sure you want to remove ACLs: \n{shown}\n from resource filter `{named}`? (y/n)"
            if entries
            else f"Are you sure you want to delete all ACLs for resource filter `{named}`? (y/n)"
        )
        if options.force or _confirmed(question):
            every = [(None, None, Operation.ANY, Permission.ANY)]
            filters = [DeleteAclsFilter(named.kind, named.name, named.pattern, *entry) for entry in entries or every]
            for result in cluster.any(DeleteAclsRequest(filters)).filter_results:
                check(result.error_code, "The broker rejected the request", result.error_message)


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _list(cluster: AdminClient, options: argparse.Namespace) -> None:
    found: dict[Named, list[Entry]] = {}
    for named in _resources(options) or [Named(Resource.ANY, None, Pattern.ANY)]:
        found |= _described(cluster, named)
    if not options.principal:
        _print(found)
    for principal in options.principal:
        print(f"ACLs for principal `{principal}`")
        own = {named: [entry for entry in entries if entry.principal == principal.strip()] for named, entries in found.items()}
        _print({named: entries for named, entries in own.items() if entries})


def _print(found: dict[Named, list[Entry]]) -> None:
    for named, entries in found.items():
        print(f"Current ACLs for resource `{named}`:\n" + "\n".join(f"\t{entry}" for entry in entries) + "\n")


def _described(cluster: AdminClient, named: Named) -> dict[Named, list[Entry]]:
    answer = cluster.any(DescribeAclsRequest(named.kind, named.name, named.pattern, None, None, Operation.ANY, Permission.ANY))
    check(answer.error_code, "The broker rejected the request", answer.error_message)
    return {
        Named(Resource(each.resource_type), each.resource_name, Pattern(each.pattern_type)): [
            Entry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type)) for acl in each.acls
        ]
        for each in answer.resources
    }
