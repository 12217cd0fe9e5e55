"""Python processes that this one starts: they must import the same packages."""

import os
from pathlib import Path
from typing import Final

PACKAGES: Final = Path(__file__).parents[1]
"""The folder of `cli`, `services`, `shared` and `sandbox`: the repository, or `vigil_agents` in site-packages."""


def child_environment() -> dict[str, str]:
    """Variables with which a Python child finds the packages where this process has them.

    Otherwise it would import what has the same names in site-packages or in its working directory.
    """
    own = os.fspath(PACKAGES)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [own, *(folder for folder in inherited if folder not in ("", own))]
    return {"PYTHONPATH": os.pathsep.join(folders), "PYTHONSAFEPATH": "1"}
