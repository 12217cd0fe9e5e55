"""The lock files, as `make lock` writes them: one package, its hashes, then the packages that need it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release import ROOT

WHEEL_LOCK: Final = ROOT / "requirements.lock"
IMAGE_LOCK: Final = ROOT / "requirements-cluster.lock"
LOCKS: Final = (
    WHEEL_LOCK,
    IMAGE_LOCK,
    ROOT / "requirements-build.lock",
    ROOT / "requirements-dev.lock",
    ROOT / "requirements-node.lock",
    ROOT / "requirements-peers.lock",
)

_PACKAGE: Final = re.compile(r"([\w.-]+)==([^ ;]+)(?: ; ([^\\]+))?")
_HASH: Final = re.compile(r"--hash=sha256:(\w+)")
_USER: Final = re.compile(r"    # (?:via|  ) ?([\w.-]+)( \(\S+\))?$")


@dataclass(frozen=True)
class LockedPackage:
    name: str
    version: str
    marker: str | None
    """On which platforms it is installed; None for all."""
    sha256: tuple[str, ...]
    """One hash for each file of the release."""
    users: tuple[str, ...]
    """The packages that need it; '' stands for Vigil itself."""


def read_lock(file: Path) -> list[LockedPackage]:
    """Raises ValueError if a line is not of the expected form."""
    return [_parse(file, entry) for entry in _entries(file.read_text())]


def _entries(text: str) -> Iterator[list[str]]:
    entry: list[str] = []
    for line in filter(str.strip, text.splitlines()):
        if not line.startswith(" ") and entry:
            yield entry
            entry = []
        entry.append(line)
    if entry:
        yield entry


def _parse(file: Path, entry: list[str]) -> LockedPackage:
    head, *rest = entry
    package = _PACKAGE.match(head)
    hashes = _HASH.findall("\n".join(entry))
    if package is None or not hashes:
        raise ValueError(f"{file.name}: no pinned package with hashes: {head}")
    users = [match for line in rest if (match := _USER.match(line))]
    return LockedPackage(
        name=package[1],
        version=package[2],
        marker=package[3].strip() if package[3] else None,
        sha256=tuple(hashes),
        users=tuple("" if match[2] else match[1] for match in users),
    )
