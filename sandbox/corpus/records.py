"""Records: JSON and CSV, a document an entry."""

import csv
import io
import json
from typing import Any

from sandbox.corpus.dates import parse_date
from sandbox.corpus.document import CorpusError, Document
from sandbox.corpus.files import MAX_FILE_BYTES, SourceFile

TEXT_KEYS = ("text", "content", "body")
DATE_KEYS = ("date", "published", "published_date")


def read_json(file: SourceFile) -> list[Document]:
    """One object or a list of them, each with `text` (or `content`, `body`), and maybe title, date and url."""
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
    """Columns text (required), title, date, url in any case and order; rows without text are passed over."""
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
        published=parse_date(stated) or file.changed(),
    )
