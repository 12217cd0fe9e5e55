"""The wheel in an environment of its own, among packages that have the names of Vigil's."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

PACKAGES: Final = ("cli", "sandbox", "services", "shared")
TIMEOUT_SECONDS: Final = 240.0

_DECOY: Final = """\
with open({mark!r}, "a") as mark:
    mark.write(__file__ + "\\n")
OWNER = "somebody else"
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel, and decoys in its site-packages and in the working directory of its programs."""

    folder: Path
    bin: Path
    site_packages: Path
    working_directory: Path
    mark: Path
    """Every decoy that is imported writes its path to it."""

    def run(self, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """Runs a program of the environment there."""
        return subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.working_directory,
            env={**self.environment(), **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )

    def environment(self) -> dict[str, str]:
        """Its own home and programs; without variables that would lead to the repository or to other settings."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VIGIL_", "OPENAI_", "TAVILY_", "PYTHON", "XDG_"))
        }
        scripts = sysconfig.get_path("scripts")  # of the tests: nats-server
        path = os.pathsep.join([str(self.bin), scripts, kept["PATH"]])
        return {**kept, "HOME": str(self.folder), "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}

    def imported_decoys(self) -> list[str]:
        return self.mark.read_text().splitlines() if self.mark.exists() else []


def run_module(module: str, *arguments: str, root: Path = ROOT, **environment: str) -> str:
    """The output of `python -m MODULE` in `root`."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), **environment},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    ).stdout


def install(wheel: Path, folder: Path) -> Installed:
    """Creates the environment. The dependencies are those of the tests, after everything of its own."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    variables = {"base": str(environment), "platbase": str(environment)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", variables))
    installed = Installed(
        folder, environment / "bin", site_packages, folder / "project", folder / "imported-decoys"
    )
    # pip must not find the installation of the tests and take it for this one.
    pip = [sys.executable, "-m", "pip", "--python", str(installed.bin / "python"), "install"]
    command = [*pip, "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(command, env=installed.environment(), check=True)
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    installed.working_directory.mkdir()
    for place in (site_packages, installed.working_directory):
        _add_decoys(place, installed.mark)
    return installed


def contents(folder: Path) -> Mapping[str, bytes]:
    """Every file below the folder, without compiled ones."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    }


def _add_decoys(place: Path, mark: Path) -> None:
    for package in PACKAGES:
        (place / package).mkdir()
        (place / package / "__init__.py").write_text(_DECOY.format(mark=str(mark)))
