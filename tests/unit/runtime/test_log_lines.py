import subprocess
import sys

PROGRAM = "from shared.runtime.logging import logger; logger('any').warning('gone for a moment')"


def test_without_configuration_logs_go_to_standard_error() -> None:
    """A command's standard output may be read by a program."""
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "")
    assert "gone for a moment" in process.stderr
