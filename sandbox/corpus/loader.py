"""Loads a corpus from a folder of files or, by its name, the default corpus."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from sandbox.text.labels import parse_label, subject_of

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


def load_folder(path: Path, progress: Progress = no_progress) -> Corpus:
    """Read every known file below `path`. Files that cannot be read are left out and reported.

    Raises CorpusError if the path is missing or no document can be read.
    """
    root = path if path.is_dir() else path.parent
    files, skipped = list_files(path)
    documents: list[Document] = []
    other_types: Counter[str] = Counter()
    read = beyond = 0
    bytes_left = MAX_CORPUS_BYTES
    for number, file in enumerate(files):
        progress(number, len(files))
        suffix = file.suffix.lower()
        if suffix not in PARSERS:
            other_types[suffix or "no suffix"] += 1
            continue
        size_bytes = _size_bytes(file)
        if size_bytes <= MAX_FILE_BYTES:  # a larger one is not read
            if size_bytes > bytes_left:
                beyond += 1
                continue
            bytes_left -= size_bytes
        source = SourceFile(file, root)
        try:
            found = [each for each in PARSERS[suffix](source) if each.text.strip()]
            troubles = source.troubles or ([] if found else ["no text"])
        except UnreadableFileError as error:
            found, troubles = [], [str(error)]
        name = _shown(file.relative_to(root))
        skipped += [SkippedFile(name, trouble) for trouble in troubles]
        documents += found
        read += bool(found)
    report = _report(documents, read, skipped, other_types, beyond)
    if not documents:
        raise CorpusError(_why_empty(path, report))
    return Corpus(str(path), tuple(split_long_documents(documents)), report)


def _report(
    documents: Sequence[Document],
    files: int,
    skipped: Sequence[SkippedFile],
    other_types: Mapping[str, int],
    beyond: int,
) -> LoadReport:
    labels: Counter[str] = Counter()
    subjects: Counter[str] = Counter()
    for document in documents:
        lines = filter(None, map(parse_label, document.text.splitlines()))
        figures = [line for line in lines if line.figure]
        labels.update(list(dict.fromkeys(line.key for line in figures)))
        subjects.update(line.subject or subject_of(document.title) for line in figures)
    return LoadReport(
        files,
        tuple(skipped),
        dict(other_types),
        len(documents),
        beyond,
        subjects.total(),
        tuple(label for label, _ in labels.most_common(MAX_NAMED)),
        tuple(subject for subject, _ in subjects.most_common(MAX_NAMED)),
    )


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


def list_files(path: Path) -> tuple[list[Path], list[SkippedFile]]:
    """All files below `path`, those nearest to it first, except those whose name starts with a dot; and what is no file.

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
    return _walk(path) if path.is_dir() else ([path], [])


def _walk(root: Path) -> tuple[list[Path], list[SkippedFile]]:
    files: list[Path] = []
    skipped: list[SkippedFile] = []
    # A folder is not entered a second time, by a link, nor one that the corpus lies in.
    entered = {str(folder) for folder in (root.resolve(), *root.resolve().parents)}

    def note(error: OSError) -> None:
        name = _shown(Path(error.filename).relative_to(root))
        skipped.append(SkippedFile(f"{name}/", (error.strerror or str(error)).lower()))

    def is_new(folder: str) -> bool:
        target = os.path.realpath(folder)
        known = target in entered
        entered.add(target)
        return not known

    for folder, subfolders, names in os.walk(root, onerror=note, followlinks=True):
        subfolders[:] = [
            name
            for name in sorted(subfolders)
            if not name.startswith(".") and _is_utf8(name) and is_new(os.path.join(folder, name))
        ]
        for name in names:
            if _is_utf8(name) and not name.startswith("."):
                files.append(Path(folder, name))
            elif not name.startswith("."):
                place = Path(folder, name).relative_to(root)
                skipped.append(SkippedFile(_shown(place), "its name is not UTF-8"))
    files.sort(key=lambda file: (len(file.parts), str(file)))
    return files, sorted(skipped, key=lambda file: file.name)


def _is_utf8(name: str) -> bool:
    return name.encode(errors="ignore").decode() == name


def _shown(path: Path) -> str:
    """The path for a message, also where its name is not UTF-8."""
    return str(path).encode(errors="replace").decode()


FORMAT_VERSION = 4
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
    files = factbook.data_files() if str(path) == factbook.NAME else list_files(Path(path))[0]
    digest = sha256(f"{FORMAT_VERSION}\n{path}\n".encode())
    for file in files:
        try:
            status = file.stat()
        except OSError:
            digest.update(f"{file}\tunreadable\n".encode())
            continue
        digest.update(f"{file}\t{status.st_size}\t{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:32]
