"""Runs the tests, then runs each failed test again, alone.

* A test that fails beside others and passes alone is unstable. The run prints it and passes: one unstable test of 11,000 must not hide the
  other results. An unstable test is a bug to mend, in the test or in the program.
* More than UNSTABLE_MAX failures are not run again, because so many are no accident.
* An error outside the tests (a bad option, an interrupted run, a collection error) is the run's result as it is.

`make test` and `make test-all` call this module; its arguments are pytest's.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

UNSTABLE_MAX = 3
REPORT = Path(".pytest_cache") / "failures.xml"


def run(arguments: Sequence[str]) -> int:
    """Return pytest's exit code, or 0 if each test that failed passed when it was run again alone."""
    REPORT.unlink(missing_ok=True)
    code = _pytest([*arguments, f"--junit-xml={REPORT}"])
    if code != 1:
        return code
    failed = failures(REPORT)
    if not 0 < len(failed) <= UNSTABLE_MAX:
        return code
    print(f"\nRunning the {len(failed)} failed tests again, alone", flush=True)
    unstable = [test for test in failed if _pytest([test, "-p", "no:cacheprovider", "-n", "0"]) == 0]
    for test in unstable:
        print(f"UNSTABLE: {test} failed beside other tests and passes alone: this is a bug to mend", flush=True)
    return 0 if unstable == failed else code


def failures(report: Path) -> list[str]:
    """Return the node ids of the tests that failed, from the `node` properties of a JUnit report (tests/conftest.py writes them)."""
    found: dict[str, None] = {}
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            node = case.find("properties/property[@name='node']")
            found[node.attrib["value"] if node is not None else case.attrib.get("classname", "a test that could not be collected")] = None
    return list(found)


def _pytest(arguments: Sequence[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
