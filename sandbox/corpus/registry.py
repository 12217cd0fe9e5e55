"""The corpora of a sandbox besides its own: a JSON file with the folder and the owner of each by name.

An installation adds corpora while its sandbox runs; agents name the one that they search. Names are not paths, so that
no request can make the sandbox read a folder that was not added, and they end in random digits, so that users cannot
guess the name of another user's folder.
"""

import fcntl
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.corpus.documents import CorpusError

MAX_NAME_CHARS: Final = 32
RANDOM_BYTES: Final = 8


@dataclass(frozen=True)
class AddedCorpus:
    folder: Path
    owner: str | None
    """The id of the user who added it. None if an older version added it: then it is the operators'."""


def new_name(folder: Path) -> str:
    """A name for the corpus of a folder: that of the folder, and random digits."""
    words = "-".join(re.findall(r"[a-z0-9]+", folder.name.lower()))[:MAX_NAME_CHARS].strip("-")
    return f"{words or 'corpus'}-{secrets.token_hex(RANDOM_BYTES)}"


def read_registry(file: Path) -> dict[str, AddedCorpus]:
    """By name; empty if there is no file. Raises CorpusError if it cannot be read."""
    try:
        return parse_registry(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CorpusError(
            f"The list of corpora {file} cannot be read ({error}). Repair it, or restore it from a backup: agents search "
            "their corpora by the names in it."
        ) from error


def parse_registry(content: bytes) -> dict[str, AddedCorpus]:
    """Raises ValueError."""
    try:
        return {str(name): _parse(corpus) for name, corpus in json.loads(content).items()}
    except (AttributeError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _parse(corpus: Any) -> AddedCorpus:
    if isinstance(corpus, str):  # as older versions wrote it
        return AddedCorpus(Path(corpus), None)
    return AddedCorpus(Path(corpus["folder"]), corpus["owner"])


def add_corpus(file: Path, folder: Path, owner: str) -> str:
    """Adds a folder of a user to the registry. Returns its name; the same if this user has added it before.

    Raises CorpusError, OSError.
    """
    added = AddedCorpus(folder, owner)
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        corpora = read_registry(file)
        for name, corpus in corpora.items():
            if corpus == added:
                return name
        name = new_name(folder)
        corpora[name] = added
        draft = file.with_suffix(".draft")
        content = {each: asdict(corpus) for each, corpus in corpora.items()}
        draft.write_text(json.dumps(content, indent=2, default=str))
        os.replace(draft, file)
    return name
