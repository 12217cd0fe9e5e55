"""Loads a corpus from a folder of files or, by its name, the default corpus."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path

from sandbox.corpus import factbook
from sandbox.corpus.documents import Corpus, CorpusError, Document, LoadReport, split_long_documents
from sandbox.corpus.parsers import (
    SourceFile,
    read_csv,
    read_html,
    read_json,
    read_markdown,
    read_text,
)

PARSERS: Mapping[str, Callable[[SourceFile], list[Document]]] = {
    ".md": read_markdown,
    ".txt": read_text,
    ".html": read_html,
    ".json": read_json,
    ".csv": read_csv,
}


def load_folder(path: Path) -> Corpus:
    """Read every known file below `path`; count files of unknown types.

    Raises CorpusError if the path is missing or empty, has only unknown types, or has an unreadable file.
    """
    readable, skipped = _split_by_type(path, list_files(path))
    root = path if path.is_dir() else path.parent
    documents = [
        document
        for file in readable
        for document in PARSERS[file.suffix.lower()](SourceFile(file, root))
        if document.text
    ]
    if not documents:
        raise CorpusError(f"The corpus {path} has no text in any of its {len(readable)} files.")
    report = LoadReport(len(readable), dict(skipped))
    return Corpus(str(path), tuple(split_long_documents(documents)), report)


def list_files(path: Path) -> list[Path]:
    """All files below `path` in a fixed order, except those whose name starts with a dot."""
    try:
        exists = path.exists()
    except (OSError, ValueError):  # not a valid file name: too long, or with a NUL
        exists = False
    if not exists:
        raise CorpusError(
            f"There is no corpus at {path}. Give a folder of documents ({', '.join(PARSERS)})."
        )
    files = [path] if path.is_file() else sorted(_walk(path))
    if not files:
        raise CorpusError(
            f"The corpus folder {path} is empty. Put documents in it, or name another."
        )
    return files


def _walk(root: Path) -> list[Path]:
    files: list[Path] = []
    for folder, subfolders, names in os.walk(root, onerror=_raise_corpus_error):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        files += [Path(folder, name) for name in names if not name.startswith(".")]
    return files


def _raise_corpus_error(error: OSError) -> None:
    raise CorpusError(f"Cannot read the folder {error.filename}: {error.strerror}.") from error


def _split_by_type(path: Path, files: list[Path]) -> tuple[list[Path], Counter[str]]:
    readable = [file for file in files if file.suffix.lower() in PARSERS]
    skipped = Counter(
        file.suffix.lower() or file.name for file in files if file not in set(readable)
    )
    if not readable:
        raise CorpusError(
            f"The corpus {path} holds only files of unknown types ({', '.join(sorted(skipped))}). "
            f"Known are {', '.join(PARSERS)}."
        )
    return readable, skipped


FORMAT_VERSION = 2
"""Increment it when the parsers or the index change, so that cached indexes are rebuilt."""


def load(path: str | Path) -> Corpus:
    """Load the whole corpus. Raises CorpusError if any part of it fails."""
    if str(path) == factbook.NAME:
        return factbook.load()
    return load_folder(Path(path))


def fingerprint(path: str | Path) -> str:
    """A hash of the names, sizes and modification times of the corpus' files; reads no file.

    Raises CorpusError if the corpus is missing or empty.
    """
    files = factbook.data_files() if str(path) == factbook.NAME else list_files(Path(path))
    digest = sha256(f"{FORMAT_VERSION}\n{path}\n".encode())
    for file in files:
        status = file.stat()
        digest.update(f"{file}\t{status.st_size}\t{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]
