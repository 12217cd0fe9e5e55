"""Parsers: one file (Markdown, plain text, HTML, JSON or CSV) to documents.

Each raises UnreadableFileError if nothing of a file can be read. Entries of a JSON file that cannot be used are reported
beside the documents of the others.
"""

import csv
import io
import json
import re
import stat
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt

from sandbox.corpus.documents import Document, UnreadableFileError, parse_date
from sandbox.corpus.html import parse_html
from sandbox.text.labels import join_lines, parse_label, table_lines

MAX_FILE_BYTES = 20 * 1024 * 1024
STATED_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w-]{2,40})", re.IGNORECASE)
HEAD_BYTES = 2048
"""Where a page states its charset."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the corpus, and the folder that its URL is relative to."""

    path: Path
    root: Path
    troubles: list[str] = field(default_factory=list, compare=False)
    """Entries that were left out, each with the reason."""

    def text(self) -> str:
        """The file as text, without a byte order mark. Raises UnreadableFileError."""
        content = self._content()
        if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            return self._decoded(content, "utf-16")
        if b"\0" in content:
            raise UnreadableFileError("binary data, not text")
        return self._decoded(content, "utf-8-sig")

    def url(self, fragment: str = "") -> str:
        """A URL for a document that states none. It does not resolve."""
        relative = quote(self.path.relative_to(self.root).as_posix())
        return f"https://corpus.local/{relative}" + (f"#{fragment}" if fragment else "")

    def _content(self) -> bytes:
        try:
            # Opened only if it is a regular file: opening a FIFO would wait for a writer.
            status = self.path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableFileError("not a regular file")
            if status.st_size > MAX_FILE_BYTES:
                size = (
                    f"{status.st_size / 1024**2:.1f} MB, at most {MAX_FILE_BYTES >> 20} MB are read"
                )
                raise UnreadableFileError(size)
            return self.path.read_bytes()
        except FileNotFoundError as error:
            is_link = self.path.is_symlink()
            raise UnreadableFileError("broken link" if is_link else "no longer there") from error
        except OSError as error:
            raise UnreadableFileError((error.strerror or str(error)).lower()) from error

    def _decoded(self, content: bytes, encoding: str) -> str:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError as error:
            stated = STATED_CHARSET.search(content[:HEAD_BYTES])
            if stated is not None and self.path.suffix.lower() in HTML_SUFFIXES:
                try:
                    return content.decode(stated.group(1).decode())
                except (UnicodeDecodeError, LookupError):
                    pass
            name = "UTF-16" if encoding == "utf-16" else "UTF-8"
            raise UnreadableFileError(f"not {name} text, byte {error.start}") from error


HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})


MAX_TITLE_CHARS = 90
FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
FRONT_MATTER_FIELD = re.compile(r"^(\w+)[ \t]*[:=][ \t]*(.+?)\s*$", re.MULTILINE)


def read_markdown(file: SourceFile) -> list[Document]:
    """Parse Markdown. Title, date and URL from the front matter; else first heading and path, and no date."""
    text = file.text().replace("\r\n", "\n")
    facts: dict[str, str] = {}
    if match := FRONT_MATTER.match(text):
        stated = FRONT_MATTER_FIELD.findall(match[2])
        facts = {key.lower(): value.strip("\"'") for key, value in stated}
        text = text[match.end() :]
    page = parse_html(MarkdownIt().enable("table").render(text))
    title = facts.get("title") or page.title or _stem(file)
    return [Document(title, page.text, _address(facts) or file.url(), _published(facts))]


def read_text(file: SourceFile) -> list[Document]:
    """Parse plain text. Lines of a paragraph are joined, except labelled facts."""
    lines = [line for part in re.split(r"\n\s*\n", file.text()) for line in join_lines(part)]
    first = lines[0] if len(lines) > 1 else ""
    # A short first line that is no sentence and no fact is the title.
    is_title = first[:1].isupper() and first[-1:].isalnum() and len(first) <= MAX_TITLE_CHARS
    title = first if is_title and parse_label(first) is None else _stem(file)
    return [Document(title, "\n".join(lines), file.url())]


def read_html(file: SourceFile) -> list[Document]:
    """Parse HTML. Title, date and URL as the page states them."""
    page = parse_html(file.text())
    published = next((day for text in page.published if (day := parse_date(text))), None)
    return [Document(page.title or _stem(file), page.text, page.url or file.url(), published)]


def _stem(file: SourceFile) -> str:
    return file.path.stem.replace("_", " ").replace("-", " ").strip() or file.path.name


TEXT_KEYS = ("text", "content", "body")
DATE_KEYS = ("published", "published_date", "published_at", "publication_date", "date", "pubdate")


def read_json(file: SourceFile) -> list[Document]:
    """Parse JSON: an object or a list of them, with `text` (or `content`, `body`) and optional title, date and URL."""
    try:
        parsed = json.loads(file.text())
    except json.JSONDecodeError as error:
        raise UnreadableFileError(f"invalid JSON, line {error.lineno}") from error
    except RecursionError as error:
        raise UnreadableFileError("invalid JSON, nested too deeply") from error
    if not isinstance(parsed, list):
        return [_document(file, _fields(parsed), None)]
    documents = []
    for number, entry in enumerate(parsed, start=1):
        try:
            documents.append(_document(file, _fields(entry), number))
        except UnreadableFileError as error:
            file.troubles.append(f"entry {number}: {error}")
    if not documents:
        raise UnreadableFileError(file.troubles[0] if file.troubles else "no entries")
    return documents


def read_csv(file: SourceFile) -> list[Document]:
    """Parse CSV: a document for each row with `text` (and optional title, date and URL); without such a column, a table."""
    rows = _rows(file)
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if "text" not in header:
        return [Document(_stem(file), "\n".join(table_lines(rows)), file.url())]
    entries = [dict(zip(header, row, strict=False)) for row in rows[1:]]
    return [
        _document(file, entry, number)
        for number, entry in enumerate(entries, start=1)
        if entry.get("text", "").strip()
    ]


def _rows(file: SourceFile) -> list[list[str]]:
    text = file.text()
    usual_limit = csv.field_size_limit(MAX_FILE_BYTES)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        return [row for row in reader if row]
    except csv.Error as error:
        raise UnreadableFileError(f"invalid CSV, line {reader.line_num}") from error
    finally:
        csv.field_size_limit(usual_limit)


def _fields(entry: object) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise UnreadableFileError(f"not an object but {type(entry).__name__}")
    fields = {str(key).lower(): value for key, value in entry.items() if isinstance(value, str)}
    if not any(fields.get(key, "").strip() for key in TEXT_KEYS):
        raise UnreadableFileError(f"no text under any of the keys {', '.join(TEXT_KEYS)}")
    return fields


def _document(file: SourceFile, fields: Mapping[str, str], number: int | None) -> Document:
    text = next(fields[key] for key in TEXT_KEYS if fields.get(key, "").strip())
    stem = file.path.stem if number is None else f"{file.path.stem} {number}"
    return Document(
        title=" ".join(fields.get("title", "").split()) or stem,
        text="\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines()))),
        url=_address(fields) or file.url(f"{number}" if number else ""),
        published=_published(fields),
    )


def _address(fields: Mapping[str, str]) -> str:
    """The address that a file states; empty if that is none."""
    address = fields.get("url", "").strip()
    return address if address.startswith(("http://", "https://")) else ""


def _published(fields: Mapping[str, str], keys: Sequence[str] = DATE_KEYS) -> date | None:
    """The date of publication that a file states; None if it states none that can be read."""
    days = (parse_date(fields.get(key)) for key in keys)
    return next((day for day in days if day), None)
