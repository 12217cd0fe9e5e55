"""All pages share one style sheet: the styles of one page must not apply to another, nor change shared components."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from services.api.web.libraries import ICONS
from services.api.web.rendering import STATIC
from tests.support.api.templates import template_paths

STYLES = STATIC / "styles"
WEB = STATIC.parent
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CLASS = re.compile(r"\.([\w-]+)")
_GROUPS = ("@media", "@container", "@supports")
"""At-rules that hold rules. Others, such as @keyframes, hold none that apply to elements."""
_COMMA = re.compile(r",(?![^(]*\))")
"""Between selectors, not within `:is()`."""
_VARIABLE = re.compile(r"var\((--[\w-]+)")
_DEFINED = re.compile(r"(--[\w-]+):")
_STRING = re.compile(r"""["']([a-z][a-z0-9-]*)["']""")
_ICON_FROM_SCRIPT = re.compile(r"icons\.svg#([a-z0-9-]+)")


def outer_selectors(css: str) -> Iterator[str]:
    """Yields the selectors of rules that are nested in no other rule."""
    depth_of_rule, depth, start = None, 0, 0
    text = _COMMENT.sub("", css)
    for place, letter in enumerate(text):
        if letter in ";{}":
            head = " ".join(text[start:place].split())
            start = place + 1
            if letter == "{":
                if depth_of_rule is None and not head.startswith(_GROUPS):
                    depth_of_rule = depth
                    yield from (part.strip() for part in _COMMA.split(head))
                depth += 1
            elif letter == "}":
                depth -= 1
                if depth == depth_of_rule:
                    depth_of_rule = None


def _root_class(selector: str) -> str:
    match = _CLASS.search(selector)
    return match[1] if match else selector


def _page_sheets() -> list[Path]:
    return sorted(STYLES.glob("5-*.css"))


def test_the_parser_finds_outer_rules_only() -> None:
    rules = "/* .x { } */ .a, :is(.b, .g):hover { & .c { top: 0; } } "
    css = f"{rules}@media (x) {{ .d {{ & .e {{ }} }} }} @keyframes f {{ to {{ top: 0; }} }}"
    assert list(outer_selectors(css)) == [".a", ":is(.b, .g):hover", ".d", "@keyframes f"]


def test_styles_of_a_page_begin_with_a_class_that_no_other_file_styles() -> None:
    files: defaultdict[str, set[str]] = defaultdict(set)
    for sheet in STYLES.glob("*.css"):
        for selector in outer_selectors(sheet.read_text()):
            files[_root_class(selector)].add(sheet.name)
    own = {
        _root_class(selector): sheet.name
        for sheet in _page_sheets()
        for selector in outer_selectors(sheet.read_text())
    }
    assert own
    assert [name for name in own if not re.fullmatch(r"[\w-]+|@keyframes .*", name)] == []
    assert {name: files[name] for name in own if len(files[name]) > 1} == {}


def test_every_variable_is_defined() -> None:
    text = "".join(sheet.read_text() for sheet in STYLES.glob("*.css"))
    scripts = "".join(script.read_text() for script in STATIC.glob("*.js"))
    assert set(_VARIABLE.findall(text)) - set(_DEFINED.findall(text + scripts)) == set()


def test_the_icons_that_are_used_are_those_that_are_installed() -> None:
    texts = [path.read_text() for path in (*template_paths().values(), *WEB.parent.rglob("*.py"))]
    texts += [path.read_text() for path in STATIC.glob("*.js")]
    used = {
        name
        for text in texts
        for name in (*_STRING.findall(text), *_ICON_FROM_SCRIPT.findall(text))
    }
    listed = (WEB / "libraries.py").read_text()
    assert "".join(sorted(ICONS)) == "".join(ICONS)
    elsewhere = {
        name
        for text in texts
        if text != listed
        for name in (*_STRING.findall(text), *_ICON_FROM_SCRIPT.findall(text))
    }
    assert set(ICONS) - elsewhere == set(), "icons that nothing uses"
    assert used
