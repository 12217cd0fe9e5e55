"""Writes with what a careful reader says of each of their values, and the comparison of the rules with them.

One JSON object in a line: a page with its sentences, the nodes that are known, a node or edge with the numbers of the
sentences that it cites, and for its name and each property what rules and a reader should say. They are checked as a write
is: of the known nodes, the rules are given those that are written, and the publisher of the page's site. `writes.jsonl` is
by an author who had not read the rules. `python -m tests.support.evidence_cases.write_cases FILE` judges another file.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from shared.graph.grounding.passages import Cited, Level, Outcome, Page, Publisher, WrittenNode
from shared.graph.grounding.values import Quoted, check_element
from shared.graph.grounding.words import find_decimal_sign, find_language

WORDS = {
    Level.MATCHED: "supported",
    Level.COMPLETED: "completed",
    Level.UNREAD: "unread",
    Level.LEFT_OUT: "leave_out",
}
Case = Mapping[str, Any]


@dataclass
class Report:
    """How the rules compare with the labels of cases."""

    false: list[str] = field(default_factory=list)
    """Values that are not true, and are matched or completed."""
    lost: list[str] = field(default_factory=list)
    """True values that are left out."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Values by what the rules should say, and what they say."""
    true_values: int = 0

    @property
    def agreement(self) -> float:
        """The part of the values of which the rules say what they should."""
        same = sum(count for (expected, found), count in self.counts.items() if expected == found)
        return same / self.counts.total()


def write_cases(path: Path | None = None) -> Iterator[Case]:
    """The cases of a file, by default of `writes.jsonl`."""
    resource = files(__package__).joinpath("writes.jsonl")
    text = resource.read_text("utf-8") if path is None else path.read_text("utf-8")
    for line in text.splitlines():
        yield json.loads(line)


def judge(cases: Iterable[Case]) -> Report:
    report = Report()
    for case in cases:
        outcomes = outcomes_of(case)
        for name, expected in case["expect"]["rules"].items():
            is_true = case["expect"]["truth"][name] == "supported"
            found = _shown(outcomes.get(name))
            report.true_values += is_true
            report.counts[expected, found] += 1
            is_wrong = (
                found.startswith("completed")
                and expected.startswith("completed")
                and found != expected
            )
            if found.startswith(("supported", "completed")) and (not is_true or is_wrong):
                report.false.append(f"{case['id']} {name}")
            if found == "leave_out" and is_true:
                report.lost.append(f"{case['id']} {name}")
    return report


def _shown(outcome: Outcome | None) -> str:
    if outcome is None:
        return "absent"
    word = WORDS[outcome.level]
    return f"{word}:{outcome.value}" if outcome.level is Level.COMPLETED else word


def outcomes_of(case: Case) -> dict[str, Outcome]:
    """The outcomes of a case by `name` or `edge`, and property."""
    page, write = case["page"], case["write"]
    text = "\n".join(page["sentences"])
    language = find_language(f"{page['title']}\n{text}")
    published = date.fromisoformat(page["published"]) if page["published"] else None
    sign = find_decimal_sign(text, language)
    publisher = next(
        (
            Publisher(node["name"], node["properties"].get("country", ""))
            for node in case.get("known", [])
            if node.get("properties", {}).get("site") == page["site"]
        ),
        None,
    )
    read = Page(page["title"], page["site"], published, text, language, sign, publisher=publisher)
    names = {node["name"]: _names_of(node) for node in case.get("known", [])}
    is_label = {node["name"]: node["type_names"] == "coined" for node in case.get("known", [])}
    if write["kind"] == "node":
        name = write["name"]
        node = WrittenNode(
            names.get(name, (name,)), write["type_names"] == "coined", is_stored=name in names
        )
        key, ends = "name", [node]
    else:
        ends = [WrittenNode(names[end], is_label[end]) for end in (write["from"], write["to"])]
        key = "edge"
    quotes = [
        Quoted(Cited(read, page["sentences"][number - 1]), read.site, write["properties"])
        for number in write["cites"]
    ]
    # What the type declares of the publisher, the page has.
    outcome = check_element(ends, quotes, declared=case["expect"]["rules"])
    return {key: outcome.element, **outcome.properties}


def _names_of(node: Mapping[str, Any]) -> tuple[str, ...]:
    return (node["name"], *node.get("aliases", ()))


def main() -> int:
    """Judges a file of writes: 1 if something false is matched, or more than a hundredth of what is true is left out."""
    report = judge(write_cases(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    for (expected, found), count in sorted(report.counts.items()):
        if expected != found:
            print(f"{count:5} {expected} -> {found}")
    print(
        f"agreement {report.agreement:.1%}; true values left out: {len(report.lost)} of {report.true_values}"
    )
    print("left out:", ", ".join(report.lost) or "none")
    print("matched or completed, and not true:", ", ".join(report.false) or "none")
    return int(bool(report.false) or len(report.lost) > 0.01 * report.true_values)


if __name__ == "__main__":
    sys.exit(main())
