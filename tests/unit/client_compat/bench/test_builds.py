from __future__ import annotations

import platform
import re

from client_compat.bench import builds


def test_the_builds_that_ran_are_told() -> None:
    assert builds.python().startswith(f"{platform.python_implementation()} {platform.python_version()} (")
    assert re.fullmatch(r"\S+ at .+, record walkers (compiled|interpreted)", builds.ottla())
