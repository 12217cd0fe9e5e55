"""Loads a corpus from a folder of files or, by its name, the default corpus."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sandbox.corpus import factbook
from sandbox.corpus.documents import (
    MAX_CORPUS_BYTES,
    MAX_NAMED,
    Corpus,
    CorpusError,
    Document,
    LoadReport,
    SkippedFile,
    UnreadableFileError,
    split_long_documents,
)
from sandbox.corpus.parsers import (
    MAX_FILE_BYTES,
    SourceFile,
    read_csv,
    read_html,
    read_json,
    read_markdown,
    read_text,
)
from sandbox.text.language import ENGLISH, language_of

PARSERS: Mapping[str, Callable[[SourceFile], list[Document]]] = {
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".json": read_json,
    ".csv": read_csv,
}
KNOWN_TYPES = ".md, .txt, .html, .json, .csv"
Progress = Callable[[int, int], None]
"""Called with the number of files that were read and of all files, often."""


def no_progress(_read: int, _of: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, slots=True)
class FileList:
    """The files below a folder in a fixed order, and what cannot be a file of a corpus."""

    files: tuple[Path, ...]
    skipped: tuple[SkippedFile, ...] = ()


def load_folder(path: Path, progress: Progress = no_progress) -> Corpus:
    """Read every known file below `path`. Files that cannot be read are left out and reported.

    Raises CorpusError if the path is missing or no document can be read.
    """
    listed = list_files(path)
    folder = _Folder(path, [*listed.skipped])
    folder.read(listed.files, progress)
    return folder.corpus()


@dataclass(slots=True)
class _Folder:
    """The documents of a folder while they are read."""

    path: Path
    skipped: list[SkippedFile]
    documents: list[Document] = field(default_factory=list)
    other_types: Counter[str] = field(default_factory=Counter)
    files: int = 0
    """How many gave documents."""
    beyond: int = 0
    """How many are beyond MAX_CORPUS_BYTES."""

    def read(self, files: tuple[Path, ...], progress: Progress) -> None:
        bytes_left = MAX_CORPUS_BYTES
        for number, file in enumerate(files):
            progress(number, len(files))
            if file.suffix.lower() not in PARSERS:
                self.other_types[file.suffix.lower() or "no suffix"] += 1
                continue
            size_bytes = _size_bytes(file)
            if bytes_left < size_bytes <= MAX_FILE_BYTES:
                self.beyond += 1
                continue
            if size_bytes <= MAX_FILE_BYTES:  # a larger one is not read
                bytes_left -= size_bytes
            self._read_file(file)

    def corpus(self) -> Corpus:
        """Raises CorpusError if there is no document."""
        titles: dict[str, list[str]] = {}
        for document in self.documents:
            titles.setdefault(language_of(document.text), []).append(document.title)
        english = tuple(titles.pop(ENGLISH, ())[:MAX_NAMED])
        report = LoadReport(
            self.files,
            tuple(self.skipped),
            dict(self.other_types),
            len(self.documents),
            {language: tuple(named) for language, named in titles.items()},
            english,
            self.beyond,
        )
        if not self.documents:
            raise CorpusError(_why_empty(self.path, report))
        return Corpus(str(self.path), tuple(split_long_documents(self.documents)), report)

    def _read_file(self, file: Path) -> None:
        source = SourceFile(file, self._root)
        try:
            documents = [
                document
                for document in PARSERS[file.suffix.lower()](source)
                if document.text.strip()
            ]
        except UnreadableFileError as error:
            self._skip(file, str(error))
            return
        for trouble in source.troubles:
            self._skip(file, trouble)
        if documents:
            self.files += 1
            self.documents += documents
        else:
            self._skip(file, "no text")

    def _skip(self, file: Path, reason: str) -> None:
        self.skipped.append(SkippedFile(_shown(file.relative_to(self._root)), reason))

    @property
    def _root(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent


def _size_bytes(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0  # reading it will say why


def _why_empty(path: Path, report: LoadReport) -> str:
    skipped = report.describe_skipped()
    if not skipped:
        return f"The corpus folder {path} is empty. Add documents to it, or specify another folder."
    return (
        f"The corpus {path} has no readable documents ({skipped}). "
        f"Specify a folder with documents of these types: {KNOWN_TYPES}."
    )


def list_files(path: Path) -> FileList:
    """All files below `path`, those nearest to it first, except those whose name starts with a dot.

    Raises CorpusError if there is no such file or folder.
    """
    try:
        exists = path.exists()
    except (OSError, ValueError):  # not a valid file name: too long, or with a NUL
        exists = False
    if not exists:
        raise CorpusError(
            f"There is no corpus at {path}. Specify a folder of documents ({KNOWN_TYPES})."
        )
    return _walk(path) if path.is_dir() else FileList((path,))


def _walk(root: Path) -> FileList:
    files: list[Path] = []
    skipped: list[SkippedFile] = []
    visited: set[str] = set()
    ancestors = {str(folder) for folder in (root.resolve(), *root.resolve().parents)}

    def note(error: OSError) -> None:
        name = _shown(Path(error.filename).relative_to(root))
        skipped.append(SkippedFile(f"{name}/", (error.strerror or str(error)).lower()))

    for folder, subfolders, names in os.walk(root, onerror=note, followlinks=True):
        visited.add(os.path.realpath(folder))
        subfolders[:] = [
            name
            for name in sorted(subfolders)
            if not name.startswith(".")
            and _is_new(Path(folder, name), visited, ancestors)
            and _is_utf8(name)
        ]
        for name in names:
            if name.startswith("."):
                continue
            if _is_utf8(name):
                files.append(Path(folder, name))
            else:
                place = Path(folder, name).relative_to(root)
                skipped.append(SkippedFile(_shown(place), "its name is not UTF-8"))
    files.sort(key=lambda file: (len(file.parts), str(file)))
    return FileList(tuple(files), tuple(sorted(skipped, key=lambda file: file.name)))


def _is_new(folder: Path, visited: set[str], ancestors: set[str]) -> bool:
    """Whether a folder is to be entered: not a second time, by a link, and not one that the corpus lies in."""
    target = os.path.realpath(folder)
    is_new = target not in visited and target not in ancestors
    visited.add(target)
    return is_new


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: Path) -> str:
    """The path for a message, also where its name is not UTF-8."""
    return str(path).encode(errors="replace").decode()


FORMAT_VERSION = 3
"""Increment it when the parsers or the index change, so that cached indexes are rebuilt."""


def load(path: str | Path, progress: Progress = no_progress) -> Corpus:
    """Load the whole corpus. Raises CorpusError if there is nothing to read."""
    if str(path) == factbook.NAME:
        return factbook.load()
    return load_folder(Path(path), progress)


def fingerprint(path: str | Path) -> str:
    """A hash of the names, sizes and modification times of the corpus' files; reads no file.

    Raises CorpusError if the corpus is missing.
    """
    files = factbook.data_files() if str(path) == factbook.NAME else list_files(Path(path)).files
    digest = sha256(f"{FORMAT_VERSION}\n{path}\n".encode())
    for file in files:
        try:
            status = file.stat()
        except OSError:
            digest.update(f"{file}\tunreadable\n".encode())
            continue
        digest.update(f"{file}\t{status.st_size}\t{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]
