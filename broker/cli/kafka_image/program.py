"""`ottla kafka-image`: starts Ottla in place of a container image of Kafka; the image's scripts call it. FLAVOUR (apache, confluent or
bitnami) is the image whose environment variables and paths apply.

`run [FLAVOUR] [VARIABLE=VALUE…]` reads the variables, formats and serves in one process; it writes only to the data directory.
`configure FLAVOUR FILE` writes the settings to a file, for scripts that continue with `kafka-storage format` and `kafka-server-start`.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.broker.cli.kafka_image.plan import ImageStart, planned
from ottla.broker.cli.kafka_image.variables import Flavour, asks_for_kafka, flavour_of, with_files
from ottla.broker.cli.serve import KafkaReplacement
from ottla.broker.cli.serve import main as serve
from ottla.broker.core.settings_load import SettingsError, read_properties
from ottla.protocol.import_without_init import module_of

EXIT_USAGE: Final = 2
MOUNTED: Final[Mapping[Flavour, Path]] = {
    Flavour.APACHE: Path("/mnt/shared/config/server.properties"),
    Flavour.BITNAMI: Path("/bitnami/kafka/config/server.properties"),
}
_USAGE: Final = "usage: ottla kafka-image run [apache|confluent|bitnami] [VARIABLE=VALUE…] | configure apache|confluent|bitnami FILE"


def main(argv: Sequence[str]) -> int:
    """Run the command `ottla kafka-image`; return the process's exit code."""
    match list(argv):
        case ["run", *rest]:
            flavour = Flavour(rest.pop(0)) if rest and rest[0] in set(Flavour) else None
            if any("=" not in item for item in rest):
                return _usage()
            os.environ.update(item.partition("=")[::2] for item in rest)
            return _run(flavour)
        case ["configure", name, file] if name in set(Flavour):
            return _configure(Flavour(name), Path(file))
    return _usage()


def wanted(env: Mapping[str, str]) -> bool:
    """Return whether a container that was started without a command should be a Kafka broker, because it has variables or mounted files of
    Kafka's images."""
    return asks_for_kafka(env) or any(path.exists() for path in MOUNTED.values())


def _usage() -> int:
    print(_USAGE, file=sys.stderr)
    return EXIT_USAGE


def _run(flavour: Flavour | None) -> int:
    try:
        more, plan = options_of(os.environ), _plan(flavour)
    except SettingsError as error:
        print(f"ottla kafka-image: {error}", file=sys.stderr)
        return EXIT_USAGE
    _print_plan(plan)
    topics = [f"--topic={item}" for item in re.split(r"[,\s]+", plan.topics) if item]
    return serve([*topics, *more], KafkaReplacement(plan.settings, plan.scram, plan.variables))


def _configure(flavour: Flavour, file: Path) -> int:
    try:
        plan = _plan(flavour)
        settings = {name: value for name, value in plan.settings.items() if name != "cluster.id" or "process.roles" not in plan.settings}
        with file.open("w", encoding="latin-1") as out:
            module_of("javaproperties", "writing").dump(settings, out, timestamp=False)
    except SettingsError as error:
        print(f"ottla kafka-image: {error}", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        print(f"ottla kafka-image: {file} cannot be written: {error.strerror}", file=sys.stderr)
        return 1
    _print_plan(plan)
    return 0


def _plan(flavour: Flavour | None) -> ImageStart:
    env = dict(os.environ)
    env_flavour = flavour or flavour_of(env)
    if env_flavour is Flavour.BITNAMI:
        env = with_files(env)
    mounted = MOUNTED.get(env_flavour)
    if flavour is None and env_flavour is Flavour.APACHE and not asks_for_kafka(env):
        mounted = next((path for path in MOUNTED.values() if path.exists()), None)
    return planned(flavour, env, read_properties(mounted if mounted is not None and mounted.exists() else None), env_flavour=env_flavour)


def _print_plan(plan: ImageStart) -> None:
    for warning in plan.warnings:
        print(f"===> {warning}", flush=True)


def options_of(env: Mapping[str, str]) -> list[str]:
    """Return the options of `ottla serve` in OTTLA_OPTIONS, for instance for faults and the admin port. Raises SettingsError if their
    quotes are not balanced."""
    try:
        return shlex.split(env.get("OTTLA_OPTIONS", ""))
    except ValueError as error:
        raise SettingsError(f"OTTLA_OPTIONS is not a valid command line: {error}") from None
