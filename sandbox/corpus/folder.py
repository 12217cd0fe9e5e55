"""A corpus from a folder of files."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from sandbox.corpus.document import Corpus, CorpusError, Document, LoadReport
from sandbox.corpus.files import SourceFile
from sandbox.corpus.pages import read_html, read_markdown, read_text
from sandbox.corpus.parts import in_parts
from sandbox.corpus.records import read_csv, read_json

READERS: Mapping[str, Callable[[SourceFile], list[Document]]] = {
    ".md": read_markdown,
    ".txt": read_text,
    ".html": read_html,
    ".json": read_json,
    ".csv": read_csv,
}


def load(path: Path) -> Corpus:
    """Read every known file below `path`; unknown types are counted, not read.

    Raises CorpusError where the path is missing or empty, holds unknown types alone, or any known file cannot be read.
    """
    known, skipped = _sort_out(path, list_files(path))
    root = path if path.is_dir() else path.parent
    documents = [
        document
        for file in known
        for document in READERS[file.suffix.lower()](SourceFile(file, root))
        if document.text
    ]
    if not documents:
        raise CorpusError(f"The corpus {path} has no text in any of its {len(known)} files.")
    report = LoadReport(len(known), dict(skipped))
    return Corpus(str(path), tuple(in_parts(documents)), report)


def list_files(path: Path) -> list[Path]:
    """All files below `path` in a fixed order, those whose name starts with a dot left out."""
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a name that no file can have: too long, or with a NUL
        exists = False
    if not exists:
        raise CorpusError(
            f"There is no corpus at {path}. Give a folder of documents ({', '.join(READERS)})."
        )
    files = [path] if path.is_file() else sorted(_walk(path))
    if not files:
        raise CorpusError(
            f"The corpus folder {path} is empty. Put documents in it, or name another."
        )
    return files


def _walk(root: Path) -> list[Path]:
    found: list[Path] = []
    for folder, subfolders, names in os.walk(root, onerror=_refuse):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return found


def _refuse(error: OSError) -> None:
    raise CorpusError(f"Cannot read the folder {error.filename}: {error.strerror}.") from error


def _sort_out(path: Path, files: list[Path]) -> tuple[list[Path], Counter[str]]:
    known = [file for file in files if file.suffix.lower() in READERS]
    skipped = Counter(file.suffix.lower() or file.name for file in files if file not in set(known))
    if not known:
        raise CorpusError(
            f"The corpus {path} holds only files of unknown types ({', '.join(sorted(skipped))}). "
            f"Known are {', '.join(READERS)}."
        )
    return known, skipped
