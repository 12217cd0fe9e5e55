"""From the World Factbook's nested facts to lines of text."""

import re
from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from html import unescape
from typing import Any
from unicodedata import normalize

LINE_BREAK = re.compile(r"<\s*(?:br|/?p)\b[^>]*>", re.IGNORECASE)
TAG = re.compile(r"<[^>]+>")
NOTE_MARK = re.compile(r"^notes?(?:\s*\d+)?\s*:\s*", re.IGNORECASE)
STATED_YEAR = re.compile(r"\((?:[^()]{0,20}\b)?((?:19|20)\d\d)(?:\s*est\.?)?\)")
NOT_SLUG = re.compile(r"[^a-z0-9]+")


def fact_lines(subject: str, label: str, fact: Any) -> Iterator[str]:
    """A line for each value under `label`, told by its whole path: `Ghana — Electricity, imports: …`."""
    for path, value, more in stated_values(label, fact):
        if value:
            yield _sentence(f"{subject} — {path}: {value}")
        yield from (_sentence(paragraph) for paragraph in more)


def stated_values(label: str, fact: Any) -> Iterator[tuple[str, str, list[str]]]:
    """Each value under `label`: its path (`Electricity, imports`), its first paragraph, and the further ones."""
    for path, text in _values(label.strip(), fact):
        paragraphs = plain(text).split("\n")
        yield path, _without_echo(paragraphs[0], path), [more for more in paragraphs[1:] if more]


def _values(path: str, fact: Any) -> Iterator[tuple[str, str]]:
    if isinstance(fact, str):
        yield path, fact
        return
    for key, inner in fact.items():
        if key == "text":
            yield path, inner
        elif key == "note":
            yield f"{path}, note", inner
        else:
            yield from _values(_joined(path, key.strip()), inner)


def _joined(path: str, key: str) -> str:
    """`Exports` and `Exports 2023` make `Exports 2023`; `Land use` and `forest` make `Land use, forest`."""
    last = key.rpartition(": ")[2]
    return last if path.lower() in last.lower() else f"{path}, {last}"


def _without_echo(text: str, path: str) -> str:
    """Values sometimes repeat their own label: `arable land: 20.7%`."""
    text = NOTE_MARK.sub("", text)
    own_label = path.rpartition(", ")[2]
    return text[len(own_label) + 1 :].strip() if text.startswith(f"{own_label}:") else text


def _sentence(line: str) -> str:
    return line if line.endswith((".", "!", "?")) else f"{line}."


def plain(text: str) -> str:
    """Without tags and entities; breaks and paragraphs become lines."""
    if "<" in text:
        text = TAG.sub("", LINE_BREAK.sub("\n", text))
    if "&" in text:
        text = unescape(text)
    if "\n" not in text:
        return " ".join(text.split())
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def newest_year(text: str) -> date | None:
    """The first day of the newest year that a value is stated for, as in `(2024 est.)`."""
    years = [int(year) for year in STATED_YEAR.findall(text)]
    return date(max(years), 1, 1) if years else None


@lru_cache(maxsize=1024)
def slug(name: str) -> str:
    """`Cote d'Ivoire` becomes `cote-d-ivoire`."""
    ascii_name = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return NOT_SLUG.sub("-", ascii_name).strip("-")
