"""`ottla users`: lists, adds and removes SCRAM users of any Kafka cluster (KIP-554)."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ottla.broker.cli.cluster import AdminClient, check
from ottla.broker.cli.common import BOOTSTRAP, AsJson, Bootstrap, CliError, command, note, print_rows
from ottla.broker.cli.operations import SCRAM_NAMES, alter_scram, scram_credential
from ottla.protocol.messages.k50_describe_user_scram_credentials import DescribeUserScramCredentialsRequest

app = typer.Typer(help="List, add and remove users who authenticate with SCRAM.", no_args_is_help=True)


class _Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


User = Annotated[str, typer.Argument(metavar="USER")]


@app.command("list")
@command
def list_users(bootstrap: Bootstrap = BOOTSTRAP, as_json: AsJson = False) -> None:
    """List the users with their SCRAM mechanisms."""
    with AdminClient(bootstrap) as cluster:
        response = cluster.any(DescribeUserScramCredentialsRequest(None))
    check(response.error_code, "listing users", response.error_message)
    rows = [
        (result.user, SCRAM_NAMES.get(each.mechanism, str(each.mechanism)), each.iterations)
        for result in sorted(response.results, key=lambda result: result.user)
        for each in result.credential_infos
    ]
    print_rows(("user", "mechanism", "iterations"), rows, as_json=as_json)


@app.command("add")
@command
def add(
    user: User,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    mechanism: Annotated[_Mechanism, typer.Option(help="The mechanism that the user authenticates with.")] = _Mechanism.SHA_256,
    iterations: Annotated[int, typer.Option(help="SCRAM iterations, 4096 to 16384; more make guessing the password slower.")] = 4096,
    password: Annotated[
        str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True, envvar="OTTLA_PASSWORD", help="Prompted for by default.")
    ],
) -> None:
    """Add a user, or change a user's password. Only the salted hash is sent to the broker, not the password."""
    if not password:
        raise CliError("the password must not be empty")
    with AdminClient(bootstrap) as cluster:
        alter_scram(cluster, user, [], [scram_credential(user, mechanism.value, password, iterations)])
    note(f"{user} can authenticate with {mechanism.value}")


@app.command("remove")
@command
def remove(
    user: User,
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    mechanism: Annotated[_Mechanism, typer.Option(help="The mechanism to remove.")] = _Mechanism.SHA_256,
) -> None:
    """Remove a user's credential for one mechanism; open connections stay open."""
    with AdminClient(bootstrap) as cluster:
        alter_scram(cluster, user, [mechanism.value], [])
    note(f"{user} can no longer authenticate with {mechanism.value}")
