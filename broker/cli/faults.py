"""`ottla faults`, `ottla clock` and `ottla marks`: control the fault rules, the clock and the marks (saved states to which the broker can
be rewound) of a broker that runs with `--admin-port`."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from http import HTTPStatus
from typing import Annotated, Any

import typer

from ottla.broker.admin.tokens import TOKEN_ENV, find_token
from ottla.broker.cli.common import AsJson, CliError, command, note, print_json, print_table, say
from ottla.broker.faults.rules import STEPS, FaultAction, FaultSyntax, parse_rule
from ottla.protocol.printable import reason_of

app = typer.Typer(
    help="Script faults on a running broker or gateway (started with --admin-port): drop, hold, delay or reject requests, fill the disk, "
    "and more.",
    no_args_is_help=True,
)
marks = typer.Typer(
    help="Mark states of a running broker (started with --admin-port), and return to them (docs/fork-and-rewind.md).", no_args_is_help=True
)
clock = typer.Typer(help="Show or advance the clock of a running broker or gateway (started with --admin-port).", no_args_is_help=True)

Admin = Annotated[str, typer.Option("--admin", envvar="OTTLA_ADMIN", metavar="HOST:PORT", help="The admin port of the broker or gateway.")]
ADMIN = "127.0.0.1:9644"
TIMEOUT_S = 30.0
UNAUTHORIZED = 401
WAIT_POLL_S = 0.02
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""An HTTP client that ignores the proxy settings of the environment, because a proxy could not reach a broker on this machine."""
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def ask(admin: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send one request to the admin port and return its JSON response. Raises CliError with the admin port's message."""
    data = None if body is None else json.dumps(body).encode()
    url = f"http://{admin.removeprefix('http://').rstrip('/')}{path}"
    try:
        request = urllib.request.Request(url, data, {"Content-Type": "application/json", **_authorization(url)}, method=method)
        with _DIRECT.open(request, timeout=TIMEOUT_S) as answer:
            text = answer.read()
    except urllib.error.HTTPError as error:
        detail = _detail(error.read())
        if detail == HTTPStatus.NOT_FOUND.phrase:  # the server's own words for a path that it does not have
            raise CliError(f"the admin port at {admin} has no {path}: is it a gateway's? Only a broker has marks") from error
        hint = f"; give it as {TOKEN_ENV}" if error.code == UNAUTHORIZED else ""
        raise CliError(detail + hint) from error
    except (OSError, ValueError) as error:
        reason = reason_of(getattr(error, "reason", error))
        raise CliError(
            f"no admin port answers at {admin} ({reason}); start the broker or gateway with --admin-port, and give its address with --admin"
        ) from error
    return json.loads(text) if text else None


def _authorization(url: str) -> dict[str, str]:
    """Return the HTTP header with the token of the admin port at `url`; no header if neither the environment nor this user's files have
    one. Raises ValueError if `url` has no valid address."""
    at = urllib.parse.urlsplit(url)
    token = find_token(at.hostname or "", at.port or 80)
    return {} if token is None else {"Authorization": f"Bearer {token}"}


@app.command("add")
@command
def add(rule: Annotated[str, typer.Argument(metavar="ACTION[:NAME=VALUE,…]")], admin: Admin = ADMIN, as_json: AsJson = False) -> None:
    """Load a fault rule, such as `ottla faults add drop-ack:api=Produce,topic=orders,times=1`. `ottla faults actions` lists the actions."""
    try:
        given = parse_rule(rule).to_json()
    except FaultSyntax as error:
        raise CliError(str(error), 2) from error
    made = ask(admin, "POST", "/faults", {name: value for name, value in given.items() if name not in {"seen", "hits", "consumed"}})
    _print_name(made, as_json)


@app.command("list")
@command
def list_rules(admin: Admin = ADMIN, as_json: AsJson = False) -> None:
    """List the fault rules, with the number of requests that each matched and the number that it affected."""
    rules = ask(admin, "GET", "/faults")
    if as_json:
        print_json(rules)
        return
    own = {"action", "name", "seen", "hits", "consumed"}
    rows = [
        (
            rule["name"],
            rule["action"],
            ", ".join(f"{name}={value}" for name, value in rule.items() if name not in own) or "everything",
            rule["seen"],
            rule["hits"],
            "yes" if rule["consumed"] else "no",
        )
        for rule in rules
    ]
    print_table(("name", "action", "what", "matched", "hit", "consumed"), rows)


@app.command("held")
@command
def held(
    admin: Admin = ADMIN,
    wait: Annotated[float | None, typer.Option(metavar="SECONDS", help="Wait until something is held, at most this long.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the requests, responses and broker steps that fault rules hold back until they are released."""
    deadline = time.monotonic() + (wait or 0)
    found = ask(admin, "GET", "/held")
    while not found and time.monotonic() < deadline:
        time.sleep(WAIT_POLL_S)
        found = ask(admin, "GET", "/held")
    if wait is not None and not found:
        raise CliError(f"nothing was held within {wait:g} s")
    if as_json:
        print_json(found)
    else:
        print_table(("rule", "what"), [(each["rule"], each["what"]) for each in found])


@app.command("release")
@command
def release(name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None, admin: Admin = ADMIN) -> None:
    """Let everything continue that a rule holds back; without a name, everything that any rule holds back."""
    query = "" if name is None else f"?rule={urllib.parse.quote(name)}"
    typer.echo(ask(admin, "POST", f"/held/release{query}")["released"])


@app.command("remove")
@command
def remove(name: Annotated[str, typer.Argument(metavar="NAME")], admin: Admin = ADMIN) -> None:
    """Unload a fault rule, and let the requests, responses and broker steps that it holds back continue."""
    ask(admin, "DELETE", f"/faults/{urllib.parse.quote(name)}")


@app.command("reset")
@command
def reset(admin: Admin = ADMIN) -> None:
    """Unload all fault rules, and let everything that they hold back continue."""
    ask(admin, "DELETE", "/faults")


@app.command("check")
@command
def check(admin: Admin = ADMIN) -> None:
    """Exit with code 1 if a fault rule took effect less often than its `times`, or never if it has no `times`."""
    left = [rule for rule in ask(admin, "GET", "/faults") if not rule["consumed"]]
    if left:
        raise CliError("not consumed: " + ", ".join(f"{rule['name']} ({rule['hits']} of {rule.get('times', 'any')} hit)" for rule in left))


@app.command("actions")
@command
def actions() -> None:
    """List the actions that a fault rule can have, and its other fields."""
    for action in FaultAction:
        typer.echo(action.value)
    note(
        f"Fields: api, client_id, transactional_id, group, topic, partition, connection, after, times, share, seed, name; "
        f"ms, bytes, records, code or step ({', '.join(STEPS)}) where the action needs it. docs/faults.md explains each."
    )


@clock.command("show")
@command
def show_clock(admin: Admin = ADMIN, as_json: AsJson = False) -> None:
    """Show the broker's time and by how much it was advanced."""
    state = ask(admin, "GET", "/clock")
    if as_json:
        print_json(state)
    else:
        print_table(("now_ms", "ahead_ms"), [(state["now_ms"], state["ahead_ms"])])


@clock.command("advance")
@command
def advance(by: Annotated[str, typer.Argument(metavar="DURATION", help="90s, 10m, 24h, 8d, 250ms")], admin: Admin = ADMIN) -> None:
    """Advance the clock: sessions end, transactions time out, producer ids, offsets and old segments expire.

    For example: ottla clock advance 2h. Prints by how many milliseconds the clock is ahead in total.
    """
    typer.echo(ask(admin, "POST", "/clock/advance", {"ms": duration_ms(by)})["ahead_ms"])


@marks.command("add")
@command
def add_mark(name: Annotated[str, typer.Argument(metavar="[NAME]")] = "", admin: Admin = ADMIN, as_json: AsJson = False) -> None:
    """Save the broker's present state as a mark, and print the mark's name. The marks are lost when the broker's process ends."""
    made = ask(admin, "POST", "/marks", {"name": name})
    _print_name(made, as_json)


@marks.command("list")
@command
def list_marks(admin: Admin = ADMIN, as_json: AsJson = False) -> None:
    """List the marks (saved states of the broker), with the broker's time at which each was saved."""
    made = ask(admin, "GET", "/marks")
    if as_json:
        print_json(made)
    else:
        print_table(("name", "now_ms"), [(each["name"], each["now_ms"]) for each in made])


@marks.command("rewind")
@command
def rewind(name: Annotated[str, typer.Argument(metavar="NAME")], admin: Admin = ADMIN) -> None:
    """Restore the broker's state that was saved as this mark. A mark can be restored any number of times; clients must connect again.

    For example: ottla marks add seeded && make test && ottla marks rewind seeded
    """
    ask(admin, "POST", f"/marks/{urllib.parse.quote(name, safe='')}/rewind")


@marks.command("remove")
@command
def remove_mark(name: Annotated[str, typer.Argument(metavar="NAME")], admin: Admin = ADMIN) -> None:
    """Delete a mark, that is, a saved state of the broker; the broker's present state does not change."""
    ask(admin, "DELETE", f"/marks/{urllib.parse.quote(name, safe='')}")


def duration_ms(text: str) -> int:
    """Parse a duration such as `90s`, `1.5h` or `250ms`; return it in milliseconds. Raises CliError for any other text."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text.strip())
    if match is None:
        raise CliError(f"{text!r} is not a duration: use 90s, 10m, 24h, 8d or 250ms, for example", 2)
    return round(float(match[1]) * _UNITS[match[2]])


def _detail(body: bytes) -> str:
    try:
        detail = json.loads(body)["detail"]
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace")
    return detail if isinstance(detail, str) else "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in detail)


def _print_name(made: Any, as_json: bool) -> None:
    """Print the response about a new rule or mark: as JSON, or only its name."""
    if as_json:
        print_json(made)
    else:
        say(made["name"])
