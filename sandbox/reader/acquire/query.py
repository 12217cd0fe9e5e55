"""The query that is to be answered."""

import re
from dataclasses import dataclass

from sandbox.reader.request import ChatRequest
from sandbox.text.english import shortened

OBJECTIVE = re.compile(r"^Objective:\s*(.+)$", re.MULTILINE)
HINTS = re.compile(r"^Search hints:\s*\n((?:\s*-.*(?:\n|\Z))+)", re.MULTILINE)

MAX_HINT_CHARS = 300


@dataclass(frozen=True, slots=True)
class Query:
    """What to find out, and what to type into a search for it (at least one hint)."""

    objective: str
    hints: tuple[str, ...]

    @property
    def text(self) -> str:
        """All the words that say what is wanted."""
        return " ".join([self.objective, *self.hints])


def parse_query(request: ChatRequest) -> Query:
    """From the query section; without one, the mission is the objective."""
    section = request.section("query")
    stated = OBJECTIVE.search(section)
    objective = stated.group(1).strip() if stated else section or request.mission
    listed = HINTS.search(section)
    hints = [line.strip(" -") for line in listed.group(1).splitlines()] if listed else []
    usable = [shortened(hint, MAX_HINT_CHARS) for hint in hints if len(hint) > 1]
    return Query(objective, tuple(usable) or (shortened(objective, MAX_HINT_CHARS),))
