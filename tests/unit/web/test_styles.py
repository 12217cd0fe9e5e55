"""All pages are sent one style sheet: what is written for the pages of one kind must not reach those of another."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from services.api.web.rendering import STATIC

STYLES = STATIC / "styles"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SELECTORS = re.compile(r"([^{}]+)\{")
_CLASS = re.compile(r"\.([\w-]+)")


def _classes(sheet: Path) -> Iterator[str]:
    """What its selectors begin with."""
    for selectors in _SELECTORS.findall(_COMMENT.sub("", sheet.read_text())):
        for selector in selectors.split(","):
            if begins := _CLASS.match(selector.strip()):
                yield begins[1]


def test_no_two_kinds_of_pages_have_a_class_of_one_name() -> None:
    shared = {name for sheet in STYLES.glob("[1-4]-*.css") for name in _classes(sheet)}
    sheets: defaultdict[str, set[str]] = defaultdict(set)
    for sheet in STYLES.glob("5-*.css"):
        for name in set(_classes(sheet)) - shared:
            sheets[name].add(sheet.name)
    assert sheets
    assert {name: found for name, found in sheets.items() if len(found) > 1} == {}
