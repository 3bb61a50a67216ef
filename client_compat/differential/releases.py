"""Compare Ottla with each release of Apache Kafka in turn, and keep the results in a table of docs/releases.md. Ottla runs with `--like
RELEASE`, so that it behaves like that release.

- A release that cannot run on this machine, for instance because its jars cannot be fetched, is left out with the reason.
- A row is replaced by the next run of its release; rows of other releases stay.
- A row says how many scenarios were run: all that apply to the release ("all 65"), or some ("43 of 112"); and how many do not apply,
  because the release lacks their APIs, or its new clusters do not enable them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from client_compat.differential.run import Report, differential
from client_compat.differential.scenarios import SCENARIOS
from client_compat.kafka.jars import KafkaMissing
from client_compat.kafka.reference import release_of
from client_compat.kafka.release_record import VERSIONS, last_patch
from client_compat.support.brokers import BrokerFailed

ALL = "all"
BEGIN = '<!-- differential: written by `make differential ARGS="--like all --table docs/releases.md"` -->\n'
END = "<!-- end of the differential -->\n"
HEAD = (
    "| release | scenarios asked | ended early | not asked | answers compared | explained differences | unexplained |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
)

OnScenario = Callable[[str, Report], None]


def versions_of(like: str) -> tuple[str, ...]:
    """Return the versions of Apache Kafka that the argument of `--like` names: the last patch of one release, or of each release for `all`.
    Raises ValueError for an unknown release."""
    return tuple(VERSIONS) if like == ALL else (last_patch(like),)


def differential_of_releases(
    directory: Path, versions: Iterable[str], only: Iterable[str], *, on_scenario: OnScenario, on_missing: Callable[[str, str], None]
) -> Iterator[Report]:
    """Compare Ottla, run with `--like VERSION`, with Apache Kafka of each of the versions. Yield each report, which is also written to
    `directory`/`version`.json. `only`: words; run only scenarios with one of them in their name. If a version cannot run here, call
    `on_missing` with the version and the reason."""
    for version in versions:
        try:
            report = differential(directory / version, tuple(only), on_scenario=on_scenario, like=version)
        except (KafkaMissing, BrokerFailed) as error:
            on_missing(version, str(error))
            continue
        (directory / f"{version}.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
        yield report


def with_rows(page: str, reports: Iterable[Report]) -> str:
    """Return the page with the reports' rows in its table, newest release first. Raises ValueError if the page has no table."""
    if BEGIN not in page or END not in page:
        raise ValueError(f"the page has no table between {BEGIN.strip()} and {END.strip()}")
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    rows = {line.split("|")[1].strip(): line for line in table.splitlines(keepends=True) if line.startswith("| ")}
    rows = {version: line for version, line in rows.items() if version in VERSIONS}
    rows |= {report.kafka_version: _row(report) for report in reports}
    newest_first = sorted(rows, key=release_of, reverse=True)
    return f"{before}{BEGIN}\n{HEAD}{''.join(rows[version] for version in newest_first)}\n{END}{after}"


def _row(report: Report) -> str:
    played, unexplained, not_asked = len(report.scenarios), len(report.unexplained), len(report.not_asked)
    scenarios = f"all {played}" if played + not_asked == len(SCENARIOS) else f"{played} of {len(SCENARIOS)}"
    counts = (len(report.cut_short), not_asked, report.answers, len(report.differences) - unexplained, unexplained)
    return f"| {report.kafka_version} | {scenarios} | {' | '.join(f'{count:,}' for count in counts)} |\n"
