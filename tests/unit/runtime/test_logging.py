"""Log lines."""

import subprocess
import sys
from pathlib import Path

from cli.local.processes import open_log, tail

PROGRAM = "from shared.runtime.logging import logger; logger('any').warning('gone for a moment')"


def test_without_configuration_logs_go_to_standard_error() -> None:
    """A command's standard output may be read by a program."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "")
    assert "gone for a moment" in process.stderr


def test_a_log_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "made" / "service.log"
    for line in (b"one\n", b"two\n"):
        with open_log(path) as log:
            log.write(line)
    assert path.read_bytes() == b"one\ntwo\n"


def test_a_large_log_is_rotated_and_one_old_log_is_retained(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    for content in (b"first", b"second", b"third"):
        with open_log(path, rotate_bytes=4) as log:
            log.write(content)
    assert path.read_bytes() == b"third"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {
        "service.log": b"third",
        "service.log.1": b"second",
    }


def test_the_tail_is_short_and_of_this_run_only(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    assert tail(path) == ""
    path.write_text("old\nnew\n")
    assert tail(path, since=4) == "new"
    path.write_text("x" * 10_000)
    assert len(tail(path)) == 2000
