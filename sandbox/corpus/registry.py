"""The corpora of a sandbox besides its own: a JSON file with the folder of each by name.

An installation adds corpora while its sandbox runs; agents name the one that they search. Names are not paths, so that
no request can make the sandbox read a folder that nobody added.
"""

import fcntl
import json
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final

from sandbox.corpus.documents import CorpusError

MAX_NAME_CHARS: Final = 32
HASH_CHARS: Final = 8


def name_of(folder: Path) -> str:
    """The name of a folder's corpus: that of the folder, and a hash of its path. The same for the same path."""
    words = "-".join(re.findall(r"[a-z0-9]+", folder.name.lower()))[:MAX_NAME_CHARS].strip("-")
    return f"{words or 'corpus'}-{sha256(str(folder).encode()).hexdigest()[:HASH_CHARS]}"


def read_registry(file: Path) -> dict[str, Path]:
    """Folder by name; empty if there is no file. Raises CorpusError if it cannot be read."""
    try:
        return parse_registry(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CorpusError(
            f"The list of corpora {file} cannot be read ({error}). Repair it; or delete it and add the same folders again, "
            "which get the same names."
        ) from error


def parse_registry(content: bytes) -> dict[str, Path]:
    """Raises ValueError."""
    try:
        return {str(name): Path(folder) for name, folder in json.loads(content).items()}
    except (AttributeError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def add_corpus(file: Path, folder: Path) -> str:
    """Add a folder to the registry, which may be there already. Returns its name. Raises CorpusError, OSError."""
    name = name_of(folder)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folders = read_registry(file) | {name: folder}
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps({each: str(path) for each, path in folders.items()}, indent=2))
        os.replace(draft, file)
    return name
