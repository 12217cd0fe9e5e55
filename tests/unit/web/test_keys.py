"""The dialog of keyboard shortcuts lists every key that a script handles on its page."""

import re
from collections.abc import Iterator

import pytest

from services.api.web.rendering import STATIC
from tests.support.api.templates import template_paths

LISTED_IN = {
    "vigil.js": "base.html",
    "palette.js": "base.html",
    "saved-filters.js": "agents/list.html",
    "inbox.js": "inbox/list.html",
    "waterfall.js": "iterations/one.html",
    "graph.js": "graph/explorer.html",
    "graph-search.js": "graph/explorer.html",
    "conversation.js": "conversation/show.html",
}
"""The template with the list of the keys of each script."""
SHOWN_AS = {
    "ArrowDown": "↓",
    "ArrowUp": "↑",
    "ArrowLeft": "←",
    "ArrowRight": "→",
    "Escape": "Esc",
    # The key of "+" without Shift.
    "=": "+",
}
EVERYWHERE = {"g", "Esc"}
"""Scripts of pages handle these too, and the list of all pages names them."""
ARROWS = ("ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight")
_COMPARED = re.compile(r'event\.key(?:\.toLowerCase\(\))? [!=]== "([^"]+)"')
_TABLE = re.compile(r"(\w+)\[event\.key\]|event\.key in (\w+)")
_NAME = re.compile(r'(?:^|,)\s*(?:"([^"]+)"|(\w+))\s*:')
_SHOWN = re.compile(r"<kbd>([^<]+)</kbd>")


def handled_keys(script: str) -> set[str]:
    keys = set(_COMPARED.findall(script))
    for names in _TABLE.findall(script):
        keys |= set(_names_of_object(script, names[0] or names[1]))
    if 'event.key.startsWith("Arrow")' in script:
        keys |= set(ARROWS)
    return keys


def _names_of_object(script: str, name: str) -> Iterator[str]:
    """Yields the names at the first level of `const name = {…}`."""
    start = script.index("{", script.index(f"const {name} = "))
    depth, level = 0, ""
    for letter in script[start:]:
        depth -= letter in "})]"
        if depth == 1 and letter not in "})]":
            level += letter
        depth += letter in "{(["
        if depth == 0:
            break
    for quoted, plain in _NAME.findall(level):
        yield quoted or plain


def shown_keys(template: str) -> set[str]:
    text = template_paths()[template].read_text()
    if template == "base.html":
        dialogs = text[text.index('<dialog id="palette"') :]
        return set(_SHOWN.findall(dialogs))
    (block,) = re.findall(r"{% block page_keys %}(.*?){% endblock %}", text, re.DOTALL)
    return set(_SHOWN.findall(block))


def test_the_keys_of_a_script_are_read() -> None:
    script = """
      const PLACES = { a: "/agents", "+": () => go({ x: 1, y: 2 }), ArrowUp: [0, -1] };
      if (event.key !== "Enter" || PLACES[event.key]) go({ z: 1 });
    """
    assert handled_keys(script) == {"a", "+", "ArrowUp", "Enter"}


def test_each_script_that_handles_keys_has_a_list() -> None:
    handling = {path.name for path in STATIC.glob("*.js") if handled_keys(path.read_text())}
    assert handling == set(LISTED_IN)


@pytest.mark.parametrize("script", LISTED_IN)
def test_every_key_that_a_script_handles_is_listed(script: str) -> None:
    source = (STATIC / script).read_text()
    assert shown_keys("base.html") >= EVERYWHERE
    shown = shown_keys(LISTED_IN[script]) | EVERYWHERE
    keys = {SHOWN_AS.get(key, key) for key in handled_keys(source)}
    assert keys
    assert {key.lower() for key in keys} <= {key.lower() for key in shown}
    if any("event.key" in line and "event.shiftKey" in line for line in source.splitlines()):
        assert "Shift" in shown


@pytest.mark.parametrize("template", sorted(set(LISTED_IN.values())))
def test_every_letter_that_is_listed_is_handled(template: str) -> None:
    handled = {
        SHOWN_AS.get(key, key)
        for script, listed_in in LISTED_IN.items()
        if listed_in == template
        for key in handled_keys((STATIC / script).read_text())
    }
    letters = {key for key in shown_keys(template) if len(key) == 1}
    assert letters <= handled | {"K"}


def test_a_list_with_check_boxes_names_their_key() -> None:
    assert "Space" in shown_keys("operate/page.html")
