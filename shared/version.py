"""The version of the installed package."""

import re
from importlib.metadata import PackageNotFoundError, version
from typing import Final

DISTRIBUTION: Final = "vigil-agents"
"""Its name for pip."""

Release = tuple[int, int, int]
"""Major, minor and patch number; a version under development counts as the release that it becomes."""

_RELEASE: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def vigil_version() -> str:
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return "of its source, not installed"


def release_of(version_text: str) -> Release | None:
    """The release that a version belongs to; None for what is no version."""
    match = _RELEASE.match(version_text)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))
