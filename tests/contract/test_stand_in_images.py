"""`make container` uses a substitute for a base image that cannot be pulled only if it was made of what this checkout pins."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.docker_engine import ROOT, stand_in_tag

CHANGES = {
    "a pin": ("constraints.txt", "h11==", "h11==0."),
    "a dependency": ("pyproject.toml", "dependencies = [\n", 'dependencies = [\n  "six",\n'),
    "what builds it": ("pyproject.toml", 'requires = ["setuptools', 'requires = ["six", "setuptools'),
    "the image's extras": ("Dockerfile", "[admin,telemetry]", "[admin]"),
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("constraints.txt", "pyproject.toml", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_stand_in_image_tag_changes_when_an_input_changes(checkout: Path, change: str) -> None:
    name, old, new = CHANGES[change]
    text = (checkout / name).read_text()
    assert old in text
    (checkout / name).write_text(text.replace(old, new, 1))
    assert stand_in_tag(checkout) != stand_in_tag()


def test_stand_in_image_tag_is_unchanged_when_no_input_changed(checkout: Path) -> None:
    with (checkout / "Dockerfile").open("a") as file:
        file.write("# a comment\n")
    assert stand_in_tag(checkout) == stand_in_tag()
