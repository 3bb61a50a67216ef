"""`ottla acls`: lists, adds, removes and explains the ACLs of any Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.broker.api.authorizer import java_host
from ottla.broker.cli.cluster import AdminClient, check
from ottla.broker.cli.common import (
    BOOTSTRAP,
    AsJson,
    Bootstrap,
    CliError,
    Yes,
    command,
    judging,
    note,
    print_json,
    print_rows,
    print_table,
    say,
)
from ottla.broker.cli.metadata_dir import read_image
from ottla.broker.cluster.acl_index import AccessRequest, AclIndex, text_of
from ottla.broker.cluster.metadata_records import AccessControlEntryRecord
from ottla.broker.core.acl import CLUSTER_NAME, Operation, Pattern, Permission, Resource, super_users
from ottla.protocol.messages.k29_describe_acls import DescribeAclsRequest
from ottla.protocol.messages.k30_create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest

app = typer.Typer(help="List, add, remove and explain access control lists (ACLs) of any Kafka cluster.", no_args_is_help=True)

Named = tuple[Resource, str]
COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")

Topic = Annotated[str | None, typer.Option("--topic", metavar="NAME", help="The topic, or * for all.")]
Group = Annotated[str | None, typer.Option("--group", metavar="NAME", help="The consumer group, or * for all.")]
TransactionalId = Annotated[str | None, typer.Option("--transactional-id", metavar="ID", help="The transactional id, or * for all.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is a prefix: the ACL applies to all names that begin with it.")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The client's address, or * for all.")]
Operations = Annotated[list[str], typer.Option("--operation", metavar="OPERATION", help="READ, WRITE, DESCRIBE, ALL, …; may be repeated.")]
OneOperation = Annotated[str, typer.Option("--operation", metavar="OPERATION", help="READ, WRITE, DESCRIBE, …")]
Principal = Annotated[str | None, typer.Option("--principal", metavar="TYPE:NAME", help="Only ACLs of this principal, such as User:ann.")]


@app.command("list")
@command
def list_acls(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    principal: Principal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    as_json: AsJson = False,
) -> None:
    """List all ACLs, or those that apply to one resource: literal ones, matching prefixes, and wildcards."""
    resource, name = _at_most_one(topic, group, transactional_id, cluster=cluster) or (Resource.ANY, None)
    with AdminClient(bootstrap) as client:
        _print(_described(client, resource, name, principal), as_json=as_json)


@app.command("add")
@command
def add(
    *,
    operation: Operations,
    allow: Annotated[list[str] | None, typer.Option("--allow", metavar="TYPE:NAME", help="A principal to allow; may be repeated.")] = None,
    deny: Annotated[list[str] | None, typer.Option("--deny", metavar="TYPE:NAME", help="The principal to deny; may be repeated.")] = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = "*",
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Allow or deny principals one or more operations on one resource."""
    resource, name = _one(topic, group, transactional_id, cluster=cluster)
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    whom = [(Permission.ALLOW, each) for each in allow or ()] + [(Permission.DENY, each) for each in deny or ()]
    if not whom:
        raise CliError("name a principal with --allow or --deny, such as --allow User:ann", 2)
    acls = [
        AclCreation(resource, name, pattern, principal, java_host(host), _operation(each), permission)
        for permission, principal in whom
        for each in operation
    ]
    with AdminClient(bootstrap) as client:
        for acl, result in zip(acls, client.any(CreateAclsRequest(acls)).results, strict=True):
            check(result.error_code, f"{acl.principal} {Operation(acl.operation).name} {name}", result.error_message)
    note(f"{len(acls)} ACL{'' if len(acls) == 1 else 's'} added")


@app.command("remove")
@command
def remove(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    principal: Principal = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    operation: Annotated[str, typer.Option("--operation", metavar="OPERATION", help="Only ACLs for this operation.")] = "ANY",
    yes: Yes = False,
) -> None:
    """Remove the ACLs of the resource with exactly this name, or of all resources if none is named; --principal and --operation narrow the
    choice."""
    resource, name = _at_most_one(topic, group, transactional_id, cluster=cluster) or (Resource.ANY, None)
    pattern = Pattern.PREFIXED if prefixed else Pattern.ANY if name is None else Pattern.LITERAL
    wanted = (resource, name, pattern, principal, None, _operation(operation), Permission.ANY)
    with AdminClient(bootstrap) as client:
        found = _found(client, DescribeAclsRequest(*wanted))
        _print(found, as_json=False)
        if not found or not (yes or typer.confirm(f"Remove these {len(found)} ACLs?", err=True)):
            return
        (result,) = client.any(DeleteAclsRequest([DeleteAclsFilter(*wanted)])).filter_results
        check(result.error_code, "removing", result.error_message)
    note(f"{len(result.matching_acls)} ACLs removed")


@app.command("explain")
@judging
def explain(
    *,
    principal: Annotated[str, typer.Option("--principal", metavar="TYPE:NAME", help="The principal to check, such as User:ann.")],
    operation: OneOperation,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: Cluster = False,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The client's address.")] = "127.0.0.1",
    bootstrap: Bootstrap = BOOTSTRAP,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Read this data directory instead of asking a broker.")] = None,
    supers: Annotated[str, typer.Option("--super-users", metavar="USERS", help="The broker's super.users; clients cannot read it.")] = "",
    is_open: Annotated[bool, typer.Option("--allow-everyone-if-no-acl-found", help="The broker has that setting turned on.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check whether a principal may do an operation, and show the rule that decides. Exit code 1: denied; 2: it cannot be decided."""
    resource, name = _one(topic, group, transactional_id, cluster=cluster)
    request = AccessRequest(principal, java_host(host), _operation(operation), resource, name)
    _check_request(request, super_users(supers))
    if data_dir is not None:
        acls = list(read_image(data_dir).acls.values())
    else:
        with AdminClient(bootstrap) as client:
            acls = _described(client, resource, name, None)
    allowed, rule, about = _explained(request, acls, principal in super_users(supers), is_open=is_open)
    description = f"{principal} {Operation(request.operation).name} {resource.java_name} {name} from {host}"
    if as_json:
        print_json(
            {"asked": description, "allowed": allowed, "rule": rule, "acls": [dict(zip(COLUMNS, _row(acl), strict=True)) for acl in about]}
        )
    else:
        say(f"{'allowed' if allowed else 'denied'}: {description}\nrule: {rule}")
        if about:
            note("ACLs for this resource, of all principals:")
            print_table(COLUMNS, [_row(acl) for acl in about])
    if not allowed:
        raise typer.Exit(1)


def _check_request(request: AccessRequest, supers: Sequence[str]) -> None:
    """Raise CliError for an access request that no broker could receive: a malformed principal, the operation ANY, or a host that is not an
    IP address."""
    for principal in (request.principal, *supers):
        if not all(principal.partition(":")[::2]):
            raise CliError(f"{principal!r} is not a principal: use TYPE:NAME, such as User:ann", 2)
    if request.operation is Operation.ANY:
        raise CliError("--operation ANY cannot be checked: name one operation, such as READ", 2)
    try:
        ip_address(request.host)
    except ValueError:
        raise CliError(f"--host {request.host}: use an IP address such as 10.0.0.9, because ACLs match addresses", 2) from None


def _explained(
    request: AccessRequest, acls: Sequence[AccessControlEntryRecord], is_super: bool, *, is_open: bool
) -> tuple[bool, str, list[AccessControlEntryRecord]]:
    """Return whether the operation is allowed, the rule that decides, and the ACLs that apply to the resource. `is_open` is the broker's
    setting allow.everyone.if.no.acl.found."""
    index = AclIndex(acls)
    about = list(index.about(request.resource, request.name))
    if is_super:
        return True, "super users may do everything", about
    verdict = index.judge(request)
    if verdict.acl is not None:
        return verdict.allowed, text_of(verdict.acl), about
    if verdict.covered:
        return False, "no ACL allows it", about
    return is_open, "no ACL applies to the resource" + (", and allow.everyone.if.no.acl.found is set" if is_open else ""), about


def _at_most_one(topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool) -> Named | None:
    given = [
        (kind, name)
        for kind, name in (
            (Resource.TOPIC, topic),
            (Resource.GROUP, group),
            (Resource.TRANSACTIONAL_ID, transactional_id),
            (Resource.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(given) > 1:
        raise CliError("name one resource: --topic, --group, --transactional-id or --cluster", 2)
    return given[0] if given else None


def _one(topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool) -> Named:
    found = _at_most_one(topic, group, transactional_id, cluster=cluster)
    if found is None:
        raise CliError("name a resource: --topic, --group, --transactional-id or --cluster", 2)
    return found


def _operation(name: str) -> Operation:
    try:
        return Operation[name.strip().upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(operation.name for operation in Operation if operation is not Operation.ANY)
        raise CliError(f"{name!r} is not an operation; use one of {known}", 2) from None


def _described(client: AdminClient, resource: Resource, name: str | None, principal: str | None) -> list[AccessControlEntryRecord]:
    pattern = Pattern.ANY if name is None else Pattern.MATCH
    return _found(client, DescribeAclsRequest(resource, name, pattern, principal, None, Operation.ANY, Permission.ANY))


def _found(client: AdminClient, request: DescribeAclsRequest) -> list[AccessControlEntryRecord]:
    answer: Any = client.any(request)
    check(answer.error_code, "the ACLs", answer.error_message)
    return [
        AccessControlEntryRecord(
            resource_type=each.resource_type,
            resource_name=each.resource_name,
            pattern_type=each.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission_type,
        )
        for each in answer.resources
        for acl in each.acls
    ]


def _print(acls: Iterable[AccessControlEntryRecord], *, as_json: bool) -> None:
    print_rows(COLUMNS, sorted(map(_row, acls)), as_json=as_json)


def _row(acl: AccessControlEntryRecord) -> tuple[str, ...]:
    return (
        Resource(acl.resource_type).name,
        acl.resource_name,
        Pattern(acl.pattern_type).name,
        acl.principal,
        acl.host,
        Operation(acl.operation).name,
        Permission(acl.permission_type).name,
    )
