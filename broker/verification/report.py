"""The results of `ottla verify` as a table with explanations, as JSON, and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ottla.broker.verification.judge import Guarantee, Result, ScenarioOutcome

COLUMNS = ("scenario", *(guarantee.value for guarantee in Guarantee), "restarts", "seconds", "")
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that XML 1.0 does not allow. They are replaced, because record values can contain them."""
_NOT_ITS_FAULT = frozenset({ScenarioOutcome.EXPOSED, ScenarioOutcome.LOST_BY_SETTING})
_DID_NOT_RUN = frozenset({ScenarioOutcome.DOES_NOT_APPLY, ScenarioOutcome.CANNOT_RUN})
_NOTHING_SHOWN = frozenset({ScenarioOutcome.NOT_MET, *_DID_NOT_RUN})


def rows(results: Sequence[Result]) -> Iterator[list[str]]:
    """Yield a table row for each scenario, with a cell for each guarantee: ✓ held, ✗ broken, ! broken but not by the program under test, –
    nothing proved by this run."""
    for result in results:
        cells = [_cell(result, guarantee) for guarantee in Guarantee]
        ran = result.outcome not in _DID_NOT_RUN
        note = result.outcome.value if result.outcome in _NOTHING_SHOWN | _NOT_ITS_FAULT else ""
        notes = ": ".join(part for part in (note, result.note if not ran else "") if part)
        yield [result.name, *cells, str(result.ending.restarts) if ran else "", f"{result.ending.seconds:.1f}" if ran else "", notes]


def explanations(results: Sequence[Result]) -> Iterator[str]:
    """Yield lines that explain the broken guarantees, scenario by scenario."""
    for result in results:
        if not result.breaches:
            continue
        yield f"{result.name}: {result.happens}"
        for breach in result.breaches:
            yield f"  {breach.guarantee.value}: {breach.summary}"
            yield from (f"    {line}" for line in breach.explanation.splitlines())
        if result.note:
            yield f"  {result.note}"
        yield ""


def summary(results: Sequence[Result]) -> str:
    """Return one line with the number of scenarios for each outcome, such as `9 held, 1 broken`."""
    counts = [(outcome, sum(result.outcome is outcome for result in results)) for outcome in ScenarioOutcome]
    return ", ".join(f"{count} {outcome.value}" for outcome, count in counts if count)


def as_json(results: Sequence[Result], command: Sequence[str], role: str, failure: str | None = None) -> dict[str, Any]:
    """Return the results and their evidence as JSON values. If `ottla verify` could not finish, `failure` is the reason."""
    return {
        "command": list(command),
        "role": role,
        "could_not_judge": failure,
        "scenarios": [
            {
                "name": result.name,
                "happens": result.happens,
                "standing": result.outcome.value,
                "note": result.note,
                "guarantees": {guarantee.value: result.of(guarantee) is None for guarantee in Guarantee}
                if result.outcome not in _NOTHING_SHOWN
                else {},
                "breaches": [
                    {
                        "guarantee": each.guarantee.value,
                        "says": each.summary,
                        "by_setting": each.by_setting,
                        "explanation": each.explanation.splitlines(),
                    }
                    for each in result.breaches
                ],
                "restarts": result.ending.restarts,
                "seconds": round(result.ending.seconds, 3),
            }
            for result in results
        ],
    }


def write_junit(results: Sequence[Result], name: str, path: Path, failure: str | None = None) -> None:
    """Write a JUnit XML test suite with a test case for each scenario to `path`.

    A scenario with the outcome *broken* is a failure; all other outcomes except *held* are reported as skipped. If `ottla verify` could not
    finish, `failure` is the reason, which is reported as an error. Raises OSError if the file cannot be written, ImportError if the extra
    `audit` is not installed.
    """
    from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite  # noqa: PLC0415 # part of the extra `audit`

    suite = TestSuite(_xml_text(f"ottla verify {name}"))
    for result in results:
        case = TestCase(result.name, classname="ottla.verify", time=result.ending.seconds)
        explanation = _xml_text("\n".join(explanations([result])))
        case.system_out = explanation or _xml_text(result.happens)
        if result.outcome is ScenarioOutcome.BROKEN:
            failure_text = "; ".join(f"{each.guarantee.value}: {each.summary}" for each in result.breaches)
            broken = Failure(_xml_text(failure_text), type_="broken")
            broken.text = explanation
            case.result = [broken]
        elif result.outcome is not ScenarioOutcome.HELD:
            case.result = [Skipped(_xml_text(f"{result.outcome.value}{f': {result.note}' if result.note else ''}"))]
        suite.add_testcase(case)
    if failure is not None:
        case = TestCase("verification", classname="ottla.verify")
        case.result = [Error(_xml_text(failure), type_="could not judge")]
        suite.add_testcase(case)
    xml = JUnitXml("ottla verify")
    xml.add_testsuite(suite)
    xml.write(str(path), pretty=True)


def _xml_text(text: str) -> str:
    """Return `text` with a replacement character for each character that XML does not allow."""
    return _NOT_IN_XML.sub("\ufffd", text)


def _cell(result: Result, guarantee: Guarantee) -> str:
    broken = [breach for breach in result.breaches if breach.guarantee is guarantee]
    if broken:
        return "!" if result.outcome in _NOT_ITS_FAULT or all(breach.by_setting for breach in broken) else "✗"
    return "–" if result.outcome in _NOTHING_SHOWN else "✓"
