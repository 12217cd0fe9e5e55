"""Files for their owner's eyes only."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """At once or not at all, and at no moment readable by others."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)
