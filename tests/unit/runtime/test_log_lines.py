import subprocess
import sys

PROGRAM = "from shared.runtime.logging import logger; logger('any').warning('gone for a moment')"


def test_who_configures_nothing_logs_beside_its_answer() -> None:
    """A command's standard output may be read by a program."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert "gone for a moment" in done.stderr
