"""`python -m release.wheel`: builds the wheel and the source distribution, the same bytes for the same commit.

Every file in them has the time of the commit. Which build tools are used is fixed by `requirements.lock`.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from release import ROOT
from services.api.web.libraries import FILES, SPRITE, VENDOR

EPOCH: Final = "SOURCE_DATE_EPOCH"
LIBRARIES: Final = (*(Path(file).name for file in FILES), SPRITE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=ROOT / "dist")
    directory: Path = parser.parse_args().directory.absolute()
    if missing := [name for name in LIBRARIES if not (VENDOR / name).is_file()]:
        print(f"missing in {VENDOR.relative_to(ROOT)}: {', '.join(missing)}; run `make setup`")
        return 1
    if changes := _git("status", "--porcelain"):
        print(f"WARNING: built with changes that are not committed:\n{changes}", file=sys.stderr)
    for file in build(directory):
        print(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}")
    return 0


def build(directory: Path) -> list[Path]:
    """Builds both into `directory`, and returns their paths. Raises CalledProcessError."""
    environment = dict(os.environ)
    # Without a commit, as in an unpacked source distribution, hatchling has a fixed time of its own.
    if EPOCH not in environment and (committed := _git("log", "-1", "--format=%ct")):
        environment[EPOCH] = committed
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as fresh:
        command = [
            sys.executable,
            "-m",
            "hatchling",
            "build",
            "-d",
            fresh,
            "-t",
            "sdist",
            "-t",
            "wheel",
        ]
        subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
        return [file.replace(directory / file.name) for file in sorted(Path(fresh).iterdir())]


def _git(*arguments: str) -> str:
    """The command's output; '' outside a repository or without git."""
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
