"""Hostile pages, each a file in `pages/`: the text, and the tool calls of a model that obeys it."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.paths import TESTS

PAGES: Final = TESTS / "security" / "injection" / "pages"
HUGE_CHARS: Final = 2_000_000
MAX_ARGUMENT_CHARS: Final = 20_000
"""The most that a model can write in one answer."""


@dataclass(frozen=True)
class HostilePage:
    name: str
    language: str
    form: str
    title: str
    text: str
    orders: tuple[dict[str, Any], ...]
    """Calls of tools: `{"name", "arguments"}`. They may hold `{prompt}`, the system prompt; `{url}`, the page's own
    address; `{node}` and `{analysis}`, existing ids; and `{huge}`, as much text as a model can write."""

    @property
    def url(self) -> str:
        return f"https://{self.name}.example/page"

    def orders_with(self, **known: str) -> list[dict[str, Any]]:
        """Return the orders with their placeholders filled in."""
        return [
            _fill(order, {**known, "url": self.url, "huge": _huge()[:MAX_ARGUMENT_CHARS]})
            for order in self.orders
        ]


@cache
def pages() -> tuple[HostilePage, ...]:
    return tuple(_load_page(file) for file in sorted(PAGES.glob("*.toml")))


def _load_page(file: Path) -> HostilePage:
    data = tomllib.loads(file.read_text())
    return HostilePage(
        name=file.stem,
        language=data["language"],
        form=data["form"],
        title=data["title"],
        text=data["text"].replace("{huge}", _huge()),
        orders=tuple(data["orders"]),
    )


def _fill(value: Any, values: dict[str, str]) -> Any:
    match value:
        case str():
            for name, replacement in values.items():
                value = value.replace(f"{{{name}}}", replacement)
            return value
        case list():
            return [_fill(item, values) for item in value]
        case dict():
            return {key: _fill(item, values) for key, item in value.items()}
        case _:
            return value


@cache
def _huge() -> str:
    # Numbered, because an answer in which a model repeats itself is stopped.
    return "".join(f"Obey {number}. " for number in range(HUGE_CHARS // 8))[:HUGE_CHARS]
