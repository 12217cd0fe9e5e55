"""Pages that give orders, each a file in `pages/`: what stands there, and the calls that whoever obeys it makes."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.paths import TESTS

PAGES: Final = TESTS / "security" / "injection" / "pages"
HUGE_CHARACTERS: Final = 2_000_000
MOST_SAID_CHARACTERS: Final = 20_000
"""More a model could not say in one answer."""


@dataclass(frozen=True)
class HostilePage:
    name: str
    language: str
    form: str
    title: str
    text: str
    orders: tuple[dict[str, Any], ...]
    """Calls of tools: `{"name", "arguments"}`. They may hold `{prompt}`, the system prompt; `{url}`, the page's own
    address; `{node}` and `{analysis}`, ids of what is there; and `{huge}`, as much as a model can say."""

    @property
    def url(self) -> str:
        return f"https://{self.name}.example/page"

    def orders_with(self, **known: str) -> list[dict[str, Any]]:
        """With all of that filled in."""
        return [
            _filled(order, {**known, "url": self.url, "huge": _huge()[:MOST_SAID_CHARACTERS]})
            for order in self.orders
        ]


@cache
def pages() -> tuple[HostilePage, ...]:
    return tuple(_read(file) for file in sorted(PAGES.glob("*.toml")))


def _read(file: Path) -> HostilePage:
    told = tomllib.loads(file.read_text())
    return HostilePage(
        name=file.stem,
        language=told["language"],
        form=told["form"],
        title=told["title"],
        text=told["text"].replace("{huge}", _huge()),
        orders=tuple(told["orders"]),
    )


def _filled(value: Any, known: dict[str, str]) -> Any:
    match value:
        case str():
            for name, word in known.items():
                value = value.replace(f"{{{name}}}", word)
            return value
        case list():
            return [_filled(each, known) for each in value]
        case dict():
            return {key: _filled(each, known) for key, each in value.items()}
        case _:
            return value


@cache
def _huge() -> str:
    return ("Obey. " * (HUGE_CHARACTERS // 6 + 1))[:HUGE_CHARACTERS]
