"""What of the graph a phase sees when not everything fits: decided from the lines alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field

CHARACTERS_PER_TOKEN = 4
"""A careful mean for English and JSON; no tokenizer is asked, since every model has its own."""


@dataclass(frozen=True)
class Section:
    """Lines under a title, the most important first.

    `rank` says who is served first (0 before 1), `keep` how many lines each gets before any section gets more.
    """

    title: str
    lines: Sequence[str]
    rank: int
    keep: int = 3


@dataclass
class _Budget:
    left: int
    shown: dict[str, int] = field(default_factory=dict)

    def fill(self, section: Section, up_to: int) -> None:
        """Shows further lines of the section, up to `up_to` of them, until one does not fit."""
        for line in section.lines[self.shown.get(section.title, 0) : up_to]:
            count = self.shown.get(section.title, 0)
            cost = len(line) + 1 + (0 if count else len(_heading(section)) + 1)
            if cost > self.left:
                return
            self.left -= cost
            self.shown[section.title] = count + 1


def fit(header: str, sections: Sequence[Section], token_budget: int) -> str:
    """`header` and as much of `sections` as the budget holds, in the order given; empty ones are left out.

    First every section gets its `keep` lines, then what is left is spent on further lines, both by rank: so the last
    lines of the highest rank go first. The header always stands, even where the budget is smaller.
    """
    budget = _Budget(token_budget * CHARACTERS_PER_TOKEN - len(header))
    by_rank = sorted(sections, key=lambda section: section.rank)
    for section in by_rank:
        budget.fill(section, section.keep)
    for section in by_rank:
        budget.fill(section, len(section.lines))
    parts = [header]
    for section in sections:
        if count := budget.shown.get(section.title, 0):
            parts += [_heading(section), *section.lines[:count]]
    return "\n".join(parts)


def within(lines: Sequence[str], token_budget: int) -> str:
    """Those of `lines` that the budget holds, and a last line that says how many it does not."""
    left = token_budget * CHARACTERS_PER_TOKEN
    shown = []
    for line in lines:
        if len(line) < left:
            left -= len(line) + 1
            shown.append(line)
    if len(shown) < len(lines):
        shown.append(f"({len(lines) - len(shown)} more left out for their length)")
    return "\n".join(shown)


def _heading(section: Section) -> str:
    return f"## {section.title}"
