from __future__ import annotations

import platform
import re

from client_compat.bench import builds


def test_report_names_the_python_and_ottla_builds() -> None:
    assert builds.python().startswith(f"{platform.python_implementation()} {platform.python_version()} (")
    assert re.fullmatch(r"\S+ at .+, record walkers (compiled|interpreted)", builds.ottla())
