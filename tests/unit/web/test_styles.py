"""All pages share one style sheet: styles of one kind of page must not apply to another."""

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
    """Yields the classes with which the selectors begin."""
    for selectors in _SELECTORS.findall(_COMMENT.sub("", sheet.read_text())):
        for selector in selectors.split(","):
            if match := _CLASS.match(selector.strip()):
                yield match[1]


def test_no_class_is_styled_for_two_kinds_of_pages() -> None:
    shared = {name for sheet in STYLES.glob("[1-4]-*.css") for name in _classes(sheet)}
    sheets: defaultdict[str, set[str]] = defaultdict(set)
    for sheet in STYLES.glob("5-*.css"):
        for name in set(_classes(sheet)) - shared:
            sheets[name].add(sheet.name)
    assert sheets
    assert {name: files for name, files in sheets.items() if len(files) > 1} == {}
