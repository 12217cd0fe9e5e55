"""Crash points strike whom they are set for, once, and nobody else."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shared.failpoints import DIRECTORY, Failpoint, failpoint
from tests.support.failpoints import arm

PROGRAM = """
from shared.failpoints import Failpoint, failpoint
for number in range(3):
    print(number, flush=True)
    failpoint(Failpoint.LEASE_TAKEN)
"""


def run(directory: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={DIRECTORY: str(directory), "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout.split()


def test_nothing_happens_where_nothing_is_armed(tmp_path: Path) -> None:
    arm(tmp_path, Failpoint.DRAINING)
    assert run(tmp_path) == (0, ["0", "1", "2"])


def test_an_armed_point_kills_once(tmp_path: Path) -> None:
    arm(tmp_path, Failpoint.LEASE_TAKEN)
    assert run(tmp_path) == (-signal.SIGKILL, ["0"])
    assert run(tmp_path) == (0, ["0", "1", "2"])


def test_so_many_pass_first(tmp_path: Path) -> None:
    arm(tmp_path, Failpoint.LEASE_TAKEN, skip=2)
    assert run(tmp_path) == (-signal.SIGKILL, ["0", "1", "2"])


def test_a_file_that_names_no_signal_is_an_error(tmp_path: Path) -> None:
    arm(tmp_path, Failpoint.LEASE_TAKEN, sends="boom")
    with pytest.raises(KeyError, match="boom"):
        failpoint(Failpoint.LEASE_TAKEN, {DIRECTORY: str(tmp_path)})
