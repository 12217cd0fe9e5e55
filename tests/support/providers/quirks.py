"""Quirks of model servers as data. `python -m tests.support.providers.quirks PAGE` writes their table into a document."""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

QUIRKS: Final = Path(__file__).parents[3] / "shared" / "llm" / "quirks"


@dataclass(frozen=True)
class Quirk:
    """One deviation of a server from OpenAI's chat completions."""

    name: str
    servers: str
    """Where it was seen."""
    does: str
    """Behaviour of the server, in words."""
    expected: str
    """Behaviour of Vigil, in words."""
    request: str = "tools"
    """A key of `cli.trial.conformance.REQUESTS`."""
    refuse: Sequence[Mapping[str, Any]] = ()
    """Conditions on the request with the status and body of the refusal."""
    answer: Mapping[str, Any] = field(default_factory=dict)
    """How the answer differs."""
    expect: Mapping[str, Any] = field(default_factory=dict)
    """Expected outcome; by default, the conversation is completed."""


@cache
def quirks() -> Sequence[Quirk]:
    """All quirks, by name. Raises TypeError if a file has an unknown field."""
    return [
        Quirk(path.stem, **tomllib.loads(path.read_text("utf-8")))
        for path in sorted(QUIRKS.glob("*.toml"))
    ]


BEGIN: Final = "<!-- quirks: written by `make quirks` -->"
END: Final = "<!-- end of quirks -->"


def table() -> str:
    """The quirks as a table in Markdown."""
    head = ["| quirk | seen with | the server | Vigil |", "|---|---|---|---|"]
    rows = [
        f"| `{quirk.name}` | {quirk.servers} | {quirk.does} | {quirk.expected} |".replace("\n", " ")
        for quirk in quirks()
    ]
    return "\n".join((*head, *rows))


def with_table(page: str) -> str:
    """`page` with the table between its marks. Raises ValueError if it has none."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(with_table(page.read_text("utf-8")), "utf-8")
