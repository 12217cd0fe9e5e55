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
from typing import Any
from urllib.parse import quote

from sandbox.corpus.documents import Document, UnreadableFileError, parse_date
from sandbox.corpus.html import parse_html
from sandbox.text.sentences import parse_label

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
                raise UnreadableFileError(_size_error(status.st_size))
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


def _size_error(size_bytes: int) -> str:
    return (
        f"{size_bytes / 1024 / 1024:.1f} MB, at most {MAX_FILE_BYTES // 1024 // 1024} MB are read"
    )


MAX_FACT_LABEL_WORDS = 5
MAX_TITLE_CHARS = 90

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n(.*?)\n\1[ \t]*(?:\n|\Z)", re.DOTALL)
FRONT_MATTER_FIELD = re.compile(r"^(\w+)[ \t]*[:=][ \t]*(.+?)\s*$", re.MULTILINE)
BLOCK_MARK = re.compile(r"^\s*(?:#{1,6}|[-*+]|\d{1,3}[.)]|>)\s+")
RULE_LINE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*\|?[\s:|-]+\|[\s:|-]*$")
FENCE = re.compile(r"^\s*(?:```|~~~)")
LINK = re.compile(r"!?\[([^\]]{0,300})\]\([^)\s]{0,2000}(?:\s+\"[^\"]{0,300}\")?\)")
EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.{1,300}?)(?<=\S)\1")


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split off the `key: value` lines between leading `---` or `+++` marks (keys in lower case)."""
    text = text.replace("\r\n", "\n")
    match = FRONT_MATTER.match(text)
    if not match:
        return {}, text
    facts = {
        key.lower(): value.strip("\"'") for key, value in FRONT_MATTER_FIELD.findall(match.group(2))
    }
    return facts, text[match.end() :]


def first_heading(text: str) -> str | None:
    """The text of the first heading of any level."""
    match = HEADING.search(text)
    return _without_marks(match.group(1)) if match else None


def plain_lines(text: str) -> str:
    """Markdown as plain lines: one paragraph, heading or list item per line, without its marks.

    Hard-wrapped lines are joined, so that a line end does not cut a sentence.

    """
    lines: list[str] = []
    open_paragraph = False
    for line in text.replace("\r\n", "\n").split("\n"):
        if not line.strip() or RULE_LINE.match(line) or FENCE.match(line):
            open_paragraph = False
            continue
        marked = BLOCK_MARK.match(line) is not None or line.lstrip().startswith("|")
        content = " ".join(_without_marks(BLOCK_MARK.sub("", line)).split())
        is_fact = states_fact(content)
        if open_paragraph and not marked and not is_fact:
            lines[-1] += " " + content
        else:
            lines.append(content)
        open_paragraph = not HEADING.match(line) and not is_fact
    return "\n".join(lines)


def states_fact(line: str) -> bool:
    """Whether a line such as `Capacity 2025: 12 GWh` stands alone, also without a blank line around it."""
    fact = parse_label(line) if line[:1].isupper() else None
    return fact is not None and len(fact.label.split()) <= MAX_FACT_LABEL_WORDS


def _without_marks(line: str) -> str:
    return EMPHASIS.sub(r"\2", LINK.sub(r"\1", line)).strip().strip("|")


def read_markdown(file: SourceFile) -> list[Document]:
    """Parse Markdown. Title, date and URL from the front matter; else first heading and path, and no date."""
    facts, body = split_front_matter(file.text())
    title = facts.get("title") or first_heading(body) or _stem(file)
    return [Document(title, plain_lines(body), _address(facts) or file.url(), _published(facts))]


def read_text(file: SourceFile) -> list[Document]:
    """Parse plain text. Lines of a paragraph are joined, except facts on lines of their own."""
    lines: list[str] = []
    open_paragraph = False
    for line in (" ".join(raw.split()) for raw in file.text().splitlines()):
        is_fact = states_fact(line)
        if line and open_paragraph and not is_fact:
            lines[-1] += f" {line}"
        elif line:
            lines.append(line)
        open_paragraph = bool(line) and not is_fact
    text = "\n".join(lines)
    return [Document(_first_line(text) or _stem(file), text, file.url())]


def _first_line(text: str) -> str:
    """The first line if it is a title: short, with a capital, and no sentence; else empty."""
    line, _, rest = text.partition("\n")
    is_title = rest and line[:1].isupper() and line[-1].isalnum() and len(line) <= MAX_TITLE_CHARS
    return line if is_title and not states_fact(line) else ""


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
    """Parse CSV with the columns text (required), title, date and url in any case and order; skip rows without text."""
    rows = _rows(file)
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if "text" not in header:
        raise UnreadableFileError(
            f"no text column; its columns are: {', '.join(header)[:80] or 'none'}"
        )
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
    fields = {str(key).lower(): value for key, value in _strings(entry).items()}
    if not any(fields.get(key, "").strip() for key in TEXT_KEYS):
        raise UnreadableFileError(f"no text under any of the keys {', '.join(TEXT_KEYS)}")
    return fields


def _strings(entry: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in entry.items() if isinstance(value, str)}


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
