"""Log files of engines and actors: appended to, turned over at start, never endless."""

from pathlib import Path
from typing import BinaryIO, Final

ROTATE_BYTES: Final = 20 * 1024 * 1024
TAIL_BYTES: Final = 2000


def open_log(path: Path, *, rotate_bytes: int = ROTATE_BYTES) -> BinaryIO:
    """Open for appending; a file larger than that first becomes `<name>.1`, the only one kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > rotate_bytes:
        path.replace(path.with_name(f"{path.name}.1"))
    return path.open("ab")


def tail(path: Path, *, since: int = 0) -> str:
    """The end of the log: 2000 bytes at most, nothing before byte `since`; '' without a log."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(since, path.stat().st_size - TAIL_BYTES))
        return log.read().decode(errors="replace").strip()
