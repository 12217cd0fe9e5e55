"""The wheel beside packages of other projects that have the names of Vigil's own."""

import json
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from release.wheel import LIBRARIES
from services.api.web.libraries import VENDOR
from shared.interpreter import PACKAGES as FOLDER
from shared.interpreter import child_environment
from tests.support.paths import ROOT
from tests.support.release.installed import (
    PACKAGES,
    Installed,
    contents,
    install,
    run_module,
)

SITES = """
import shared, cli, services, sandbox
print(all(package.OWNER == "somebody else" for package in (shared, cli, services, sandbox)))
"""
CHILDREN = """
import asyncio, os, subprocess, sys
import vigil_agents
from shared.interpreter import child_environment
from shared.runtime.worker_processes import WorkerPool

async def check():
    pool = WorkerPool("services.api.verification", 1)
    await pool._start()
    await pool.close()

asyncio.run(check())
program = "import shared.version; print(shared.version.__file__)"
subprocess.run([sys.executable, "-c", program], env={**os.environ, **child_environment()}, check=True)
"""


def test_the_wheel_has_one_top_level_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [PurePosixPath(name) for name in archive.namelist()]
    assert wheel.name.startswith("vigil_agents-")
    tops = {name.parts[0] for name in names if not name.parts[0].endswith(".dist-info")}
    assert tops == {"vigil_agents"}
    folders = {
        name.parts[1] for name in names if name.parts[0] == "vigil_agents" and len(name.parts) > 2
    }
    assert folders == set(PACKAGES)


def test_the_wheel_has_every_file_of_the_packages_and_the_libraries_of_the_web_ui(
    wheel: Path,
) -> None:
    sources = {
        str(file.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("*")
        if file.is_file() and not {"__pycache__", VENDOR.name} & {*file.parts}
    }
    expected = sources | {f"services/api/web/vendor/{name}" for name in LIBRARIES}
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name.removeprefix("vigil_agents/") for name in archive.namelist() if name.count("/") > 1
        }
    assert {name for name in packed if not name.startswith("vigil_agents-")} == expected


def test_commands_run_and_import_no_decoy(installed: Installed) -> None:
    version = installed.run("vigil", "--version")
    assert version.stdout == f"vigil {_built_version()}\n"
    assert installed.run("python", "-m", "vigil_agents", "--version").stdout == version.stdout
    for arguments in (["--help"], ["agent", "create", "--help"]):
        result = installed.run("vigil", *arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("Usage: vigil")
    assert installed.imported_decoys() == []


@pytest.mark.slow
def test_doctor_finds_the_engines_and_the_corpus(installed: Installed) -> None:
    result = installed.run("vigil", "doctor", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    verdicts = {finding["name"]: finding["verdict"] for finding in json.loads(result.stdout)}
    assert (verdicts["engines"], verdicts["corpus"]) == ("good", "good")
    assert installed.imported_decoys() == []


def test_children_import_the_packages_of_their_parent(installed: Installed) -> None:
    result = installed.run("python", "-c", CHILDREN)
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).parent == installed.site_packages / "vigil_agents" / "shared"
    assert installed.imported_decoys() == []


def test_the_packages_of_others_stay_as_they_were(installed: Installed) -> None:
    before = contents(installed.working_directory)
    installed.run("vigil", "--version")
    for package in PACKAGES:
        assert [*contents(installed.site_packages / package)] == ["__init__.py"]
        assert (
            contents(installed.site_packages / package)["__init__.py"]
            == before[f"{package}/__init__.py"]
        )
    # They are what any other program of the environment imports.
    assert installed.run("python", "-P", "-c", SITES).stdout == "True\n"
    assert len(installed.imported_decoys()) == len(PACKAGES)
    installed.mark.unlink()


def test_an_unset_or_foreign_path_of_the_environment_comes_after_vigils(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert child_environment() == {"PYTHONPATH": str(FOLDER), "PYTHONSAFEPATH": "1"}
    monkeypatch.setenv("PYTHONPATH", f"/elsewhere::{FOLDER}")
    assert child_environment()["PYTHONPATH"] == f"{FOLDER}:/elsewhere"


@pytest.mark.slow
def test_the_demo_gives_advice_and_imports_no_decoy(installed: Installed) -> None:
    """The services are forked from a server of processes, and the API starts interpreters of its own."""
    result = installed.run("vigil", "demo", "--exit", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout.splitlines()[-1])["advice"]
    assert installed.imported_decoys() == []


def _built_version() -> str:
    """That of `pyproject.toml`, which the environment of the tests may not have been installed from yet."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


@pytest.mark.slow
def test_an_editable_install_runs_the_files_of_the_repository(tmp_path: Path) -> None:
    run_module("hatchling", "build", "-d", str(tmp_path / "dist"), "-t", "wheel:editable")
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    editable = install(wheel, tmp_path)
    assert editable.run("vigil", "--version").stdout == f"vigil {_built_version()}\n"
    program = "import vigil_agents, cli, shared; print(cli.__file__, shared.__file__)"
    paths = editable.run("python", "-c", program).stdout.split()
    assert paths == [str(ROOT / package / "__init__.py") for package in ("cli", "shared")]
    assert not (editable.site_packages / "vigil_agents").exists()
    assert editable.imported_decoys() == []
