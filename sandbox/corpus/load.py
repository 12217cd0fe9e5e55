"""From a path, or the word for the default corpus, to documents."""

from hashlib import sha256
from pathlib import Path

from sandbox.corpus import factbook, folder
from sandbox.corpus.document import Corpus

FORMAT_VERSION = 2
"""Raise it when the text made from a file or the index of it changes, so that kept indexes are built anew."""


def load(path: str | Path) -> Corpus:
    """Read everything, or raise CorpusError: there is no half-loaded corpus."""
    if str(path) == factbook.NAME:
        return factbook.load()
    return folder.load(Path(path))


def fingerprint(path: str | Path) -> str:
    """Changes whenever the corpus' files do (names, sizes, times of change); cheap, reads no file.

    Raises CorpusError where the corpus is missing or empty.
    """
    files = factbook.data_files() if str(path) == factbook.NAME else folder.list_files(Path(path))
    digest = sha256(f"{FORMAT_VERSION}\n{path}\n".encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file}\t{status.st_size}\t{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]
