"""Released versions of Vigil, built from the history of the repository, to run beside the tree under test."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Final

from cli.local.processes import signal_at_parents_death

ROOT: Final = Path(__file__).parents[3]
RELEASES: Final = {"0.3.0": "4882ecedb69307e570f85acdc2879d5c497b7275"}
"""The commit of each released version that a rolling upgrade or downgrade is tested with."""
NEWEST: Final = "0.3.0"


class RefusedError(RuntimeError):
    """The released version has refused to migrate; the message is its own."""


class MissingHistoryError(RuntimeError):
    """This tree has no history that the release could be built from: no git, no repository or a shallow clone."""


def tree_of(version: str, directory: Path) -> Path:
    """Write the files of a released version into `directory`. Raises MissingHistoryError."""
    _require_history()
    archive = subprocess.run(
        ["git", "archive", "--format=tar", RELEASES[version]],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    tree = directory / version
    tree.mkdir(parents=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(tree, filter="data")
    return tree


def _require_history() -> None:
    """A whole clone without the commit is an error of `RELEASES`, and not excused."""
    if shutil.which("git") is None:
        raise MissingHistoryError("git is not installed")
    shallow = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if shallow.returncode or shallow.stdout.strip() == "true":
        raise MissingHistoryError(shallow.stderr.strip() or "it is shallow")


def run(tree: str, service: str) -> None:
    """The entry point of a released service's process, which runs a Python of its own with the modules of that tree."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"services.{service}"],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": tree},
        preexec_fn=partial(signal_at_parents_death, signal.SIGKILL),
    )
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    sys.exit(process.wait())


def migrate(tree: Path, environment: dict[str, str]) -> None:
    """Run `vigil migrate` of a released version. Raises RefusedError."""
    finished = subprocess.run(
        [sys.executable, "-m", "cli", "migrate"],
        cwd=tree,
        env=os.environ | environment | {"PYTHONPATH": str(tree)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if finished.returncode:
        raise RefusedError(finished.stderr)
