"""The installed browser libraries are those that `libraries.py` lists."""

import subprocess
from pathlib import Path

import pytest

from services.api.web.libraries import FILES, FOR_TESTS, ICON_FILES, ICONS, SPRITE, install
from tests.support.paths import ROOT


def test_files_that_are_not_listed_any_more_are_deleted(tmp_path: Path) -> None:
    packages, vendor = tmp_path / "node_modules", tmp_path / "vendor"
    for file in (*FILES, *FOR_TESTS, *(f"{ICON_FILES}/{name}.svg" for name in ICONS)):
        (packages / file).parent.mkdir(parents=True, exist_ok=True)
        (packages / file).write_text("<svg></svg>")
    for stale in ("for_tests/old.js", "old.js"):
        (vendor / stale).parent.mkdir(parents=True, exist_ok=True)
        (vendor / stale).touch()
    install(packages, vendor)
    installed = {str(file.relative_to(vendor)) for file in vendor.rglob("*") if file.is_file()}
    tests = {f"for_tests/{Path(file).name}" for file in FOR_TESTS}
    assert installed == {SPRITE, *(Path(file).name for file in FILES), *tests}


@pytest.mark.parametrize("changed", ["services/api/web/libraries.py", "package-lock.json"])
def test_make_installs_the_libraries_again_when_a_list_has_changed(changed: str) -> None:
    command = ["make", "--dry-run", f"--what-if={changed}", "services/api/web/vendor"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-m services.api.web.libraries" in planned.stdout
