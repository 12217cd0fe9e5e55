"""Parsers: one file (Markdown, plain text, HTML, JSON or CSV) to documents."""

import csv
import io
import json
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sandbox.corpus.documents import CorpusError, Document, parse_date
from sandbox.text.sentences import parse_label
from sandbox.text.tokens import word_set

MAX_FILE_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the corpus, and the folder that its URL is relative to."""

    path: Path
    root: Path

    def text(self) -> str:
        """The file as text, without a byte order mark. Raises CorpusError if it is too big, unreadable or not UTF-8."""
        try:
            size_bytes = self.path.stat().st_size
            if size_bytes > MAX_FILE_BYTES:
                raise CorpusError(self._size_error(size_bytes))
            return self.path.read_bytes().decode("utf-8-sig")
        except OSError as error:
            raise CorpusError(f"Cannot read {self.path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{self.path} is not UTF-8 text (byte {error.start}). Save it as UTF-8, or take it out."
            ) from error

    def url(self, fragment: str = "") -> str:
        """A URL for a document that states none. It does not resolve."""
        relative = quote(self.path.relative_to(self.root).as_posix())
        return f"https://corpus.local/{relative}" + (f"#{fragment}" if fragment else "")

    def modified_on(self) -> date:
        """The day (UTC) of the last modification."""
        return datetime.fromtimestamp(self.path.stat().st_mtime, UTC).date()

    def _size_error(self, size_bytes: int) -> str:
        return (
            f"{self.path} is {size_bytes / 1024 / 1024:.1f} MB; a document file may have at most "
            f"{MAX_FILE_BYTES // 1024 // 1024} MB. Split it, or take it out of the corpus."
        )


BLOCK_TAGS = word_set(
    "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header "
    "hr li main nav ol p pre section table tbody td tfoot th thead tr ul"
)
HIDDEN_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "title"})
DATE_NAMES = frozenset(
    {
        "article:published_time",
        "date",
        "dc.date",
        "dcterms.date",
        "pubdate",
        "publish-date",
        "datepublished",
    }
)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """Metadata of a page, and its text with one block per line."""

    title: str
    text: str
    url: str
    published: str


def parse_html(source: str) -> HtmlPage:
    """Parse HTML. Broken markup is parsed as browsers do; no error is raised."""
    parser = _TextParser()
    parser.feed(source)
    parser.close()
    return HtmlPage(
        " ".join("".join(parser.title).split()), parser.text(), parser.url, parser.published
    )


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: list[str] = []
        self.url = ""
        self.published = ""
        self._pieces: list[str] = []
        self._silent: list[str] = []

    def text(self) -> str:
        lines = ("".join(self._pieces)).split("\n")
        return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in HIDDEN_TAGS:
            self._silent.append(tag)
        elif tag in BLOCK_TAGS:
            self._pieces.append("\n")
        self._read_facts(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            while self._silent.pop() != tag:
                continue
        elif tag in BLOCK_TAGS:
            self._pieces.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._pieces.append(data.replace("\n", " "))
        elif self._silent == ["title"]:
            self.title.append(data)

    def _read_facts(self, tag: str, facts: dict[str, str]) -> None:
        name = (facts.get("property") or facts.get("name") or facts.get("itemprop") or "").lower()
        if tag == "link" and facts.get("rel", "").lower() == "canonical":
            self.url = self.url or facts.get("href", "")
        elif tag == "meta" and name == "og:url":
            self.url = self.url or facts.get("content", "")
        elif tag == "meta" and name in DATE_NAMES:
            self.published = self.published or facts.get("content", "")
        elif tag == "time":
            self.published = self.published or facts.get("datetime", "")


MAX_FACT_LABEL_WORDS = 5

HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*(?:\n|\Z)", re.DOTALL)
FRONT_MATTER_FIELD = re.compile(r"^(\w+)\s*:\s*(.+?)\s*$", re.MULTILINE)
BLOCK_MARK = re.compile(r"^\s*(?:#{1,6}|[-*+]|\d{1,3}[.)]|>)\s+")
RULE_LINE = re.compile(r"^\s*(?:[-*_=]\s*){3,}$|^\s*\|?[\s:|-]+\|[\s:|-]*$")
FENCE = re.compile(r"^\s*(?:```|~~~)")
LINK = re.compile(r"!?\[([^\]]{0,300})\]\([^)\s]{0,2000}(?:\s+\"[^\"]{0,300}\")?\)")
EMPHASIS = re.compile(r"(\*\*|__|\*|`)(?=\S)(.{1,300}?)(?<=\S)\1")


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """Split off the `key: value` lines between leading `---` marks (keys in lower case)."""
    text = text.replace("\r\n", "\n")
    match = FRONT_MATTER.match(text)
    if not match:
        return {}, text
    facts = {
        key.lower(): value.strip("\"'") for key, value in FRONT_MATTER_FIELD.findall(match.group(1))
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
    """Parse Markdown. Title, date and URL from the front matter; else first heading, modification date and path."""
    facts, body = split_front_matter(file.text())
    title = facts.get("title") or first_heading(body) or _stem(file)
    published = parse_date(facts.get("date") or facts.get("published")) or file.modified_on()
    return [Document(title, plain_lines(body), facts.get("url") or file.url(), published)]


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
    return [Document(_stem(file), text, file.url(), file.modified_on())]


def read_html(file: SourceFile) -> list[Document]:
    """Parse HTML. Title, date and URL from its head."""
    page = parse_html(file.text())
    return [
        Document(
            page.title or _stem(file),
            page.text,
            page.url or file.url(),
            parse_date(page.published) or file.modified_on(),
        )
    ]


def _stem(file: SourceFile) -> str:
    return file.path.stem.replace("_", " ").replace("-", " ").strip() or file.path.name


TEXT_KEYS = ("text", "content", "body")
DATE_KEYS = ("date", "published", "published_date")


def read_json(file: SourceFile) -> list[Document]:
    """Parse JSON: an object or a list of them, with `text` (or `content`, `body`) and optional title, date and URL."""
    try:
        parsed = json.loads(file.text())
    except json.JSONDecodeError as error:
        raise CorpusError(
            f"{file.path} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    entries = parsed if isinstance(parsed, list) else [parsed]
    many = isinstance(parsed, list)
    return [
        _document(file, _fields(file, entry, number), number if many else None)
        for number, entry in enumerate(entries, start=1)
    ]


def read_csv(file: SourceFile) -> list[Document]:
    """Parse CSV with the columns text (required), title, date and url in any case and order; skip rows without text."""
    rows = _rows(file)
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if "text" not in header:
        raise CorpusError(
            f"{file.path} has no text column (its columns: {', '.join(header) or 'none'}). "
            "A CSV corpus needs a column named text; title, date and url are optional."
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
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        return [row for row in reader if row]
    except csv.Error as error:
        raise CorpusError(f"{file.path} is not valid CSV: {error}.") from error
    finally:
        csv.field_size_limit(usual_limit)


def _fields(file: SourceFile, entry: object, number: int) -> dict[str, str]:
    if not isinstance(entry, dict):
        raise CorpusError(
            f"{file.path}: entry {number} is not an object but {type(entry).__name__}."
        )
    fields = {str(key).lower(): value for key, value in _strings(entry).items()}
    if not any(key in fields for key in TEXT_KEYS):
        raise CorpusError(
            f"{file.path}: entry {number} has no text. Give it as one of {', '.join(TEXT_KEYS)}."
        )
    return fields


def _strings(entry: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in entry.items() if isinstance(value, str)}


def _document(file: SourceFile, fields: dict[str, str], number: int | None) -> Document:
    text = next(fields[key] for key in TEXT_KEYS if key in fields)
    stated = next((fields[key] for key in DATE_KEYS if fields.get(key)), None)
    stem = file.path.stem if number is None else f"{file.path.stem} {number}"
    return Document(
        title=fields.get("title", "").strip() or stem,
        text="\n".join(filter(None, (" ".join(line.split()) for line in text.splitlines()))),
        url=fields.get("url", "").strip() or file.url(f"{number}" if number else ""),
        published=parse_date(stated) or file.modified_on(),
    )
