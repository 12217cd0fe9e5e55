"""Conclusions with what a careful reader says of each sentence, and the comparison of a model's verdicts with them.

One JSON object in a line: cited nodes with their quotes, the text, and its sentences with `truth`. They are read as the
phase `verification` reads a conclusion: `requests` are its messages, `judge` parses answers as it does.

`python -m tests.support.evidence_cases.read_conclusions CASES` prints one JSON object with `id`, `system` and `message` for
each case. With `--answers FILE`, whose lines have `id` and `verdicts`, it compares them with the labels instead.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid5

from shared.graph.conclusions.readings import Draft, Sentence, material_of
from shared.llm.reading_answers import read_verdicts
from shared.llm.verification import SYSTEM_PROMPT, message_of
from shared.tools.readings import Material, SentenceFinding

Case = Mapping[str, Any]
WORDS = {
    "supported": "supported",
    "contradicted": "contradicted",
    "not_stated": "not_stated",
    "follows": "inference_ok",
    "plausible": "inference_ok",
    "does_not_follow": "inference_bad",
}
"""The label that each verdict agrees with."""
PASSING = frozenset({"supported", "inference_ok"})
_NAMESPACE = UUID(int=0)
_CITATIONS = re.compile(r"\s*\[(n[0-9]+)\]")


@dataclass
class Report:
    """How verdicts compare with the labels."""

    passed: list[str] = field(default_factory=list)
    """Sentences that are contradicted, not stated or do not follow, and pass."""
    refused: list[str] = field(default_factory=list)
    """Sentences that are supported or follow, and fail."""
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Sentences by label and verdict."""

    @property
    def agreement(self) -> float:
        """The part of the sentences that pass or fail as their labels say: this decides what is stored."""
        return 1 - (len(self.passed) + len(self.refused)) / self.counts.total()


def conclusion_cases(path: Path | None = None) -> Iterator[Case]:
    """The cases of a file, by default of `read_conclusions.jsonl`."""
    return _lines("read_conclusions.jsonl", path)


def recorded_answers() -> dict[str, list[str]]:
    """The answers of a strong model to the requests of `read_conclusions.jsonl`, by case."""
    return {line["id"]: line["verdicts"] for line in _lines("read_answers.jsonl")}


def _lines(name: str, path: Path | None = None) -> Iterator[Mapping[str, Any]]:
    text = (path or files(__package__).joinpath(name)).read_text("utf-8")
    yield from map(json.loads, text.splitlines())


def material(case: Case) -> Material:
    """What the phase reads of a case."""
    rows = [row for node in case["cited"] for row in _rows(case["id"], node)]
    sentences = tuple(
        Sentence(
            _CITATIONS.sub("", each["text"]),
            tuple(_id(case["id"], number) for number in _CITATIONS.findall(each["text"])),
        )
        for each in case["sentences"]
    )
    draft = Draft(_id(case["id"], "draft"), "", sentences)
    return material_of([draft], [_id(case["id"], node["id"]) for node in case["cited"]], rows)


def _rows(case_id: str, node: Mapping[str, Any]) -> Iterator[Any]:
    """The rows of a node, one for each quote, as `ConclusionReadings` loads them."""
    node_id = _id(case_id, node["id"])
    values = {"summary": node["summary"], **node["properties"]}
    for number, quote in enumerate(node["quotes"]):
        yield SimpleNamespace(
            top_id=node_id,
            id=node_id,
            type=node["type"],
            name=node["name"],
            object_name=None,
            properties=values,
            evidence_id=_id(case_id, f"{node['id']}/{number}"),
            source_id=_id(case_id, f"{node['id']}/{number}"),
            claims=values,
            valid_from=None,
            valid_to=None,
            verdict=None,
            title="",
            published=date.fromisoformat(node["published"]) if node["published"] else None,
            before=b"",
            quote=quote.encode(),
            after=b"",
            stated=None,
        )


def _id(case_id: str, name: str) -> UUID:
    return uuid5(_NAMESPACE, f"{case_id}/{name}")


def judge(cases: Iterable[Case], answers: Mapping[str, list[str]]) -> Report:
    """Compares the verdicts of answers, by case, with the labels."""
    report = Report()
    for case in cases:
        _, findings = read_verdicts(answers.get(case["id"], []), material(case))
        for place, sentence in enumerate(case["sentences"]):
            label, found = sentence["truth"], _shown(findings.get(place))
            report.counts[label, found] += 1
            name = f"{case['id']}/{place + 1}"
            if found in PASSING and label not in PASSING:
                report.passed.append(name)
            if found not in PASSING and label in PASSING:
                report.refused.append(name)
    return report


def _shown(finding: SentenceFinding | None) -> str:
    return "unread" if finding is None else WORDS[finding.verdict.value]


def main() -> int:
    """Prints requests, or judges answers: 1 if a sentence passes that should not, or less than 92 % agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    parser.add_argument("--answers", type=Path)
    arguments = parser.parse_args()
    cases = list(conclusion_cases(arguments.cases))
    if arguments.answers is None:
        for case in cases:
            line = {
                "id": case["id"],
                "system": SYSTEM_PROMPT,
                "message": message_of(material(case)),
            }
            print(json.dumps(line, ensure_ascii=False))
        return 0
    answers = {line["id"]: line["verdicts"] for line in _lines("", arguments.answers)}
    report = judge(cases, answers)
    for (label, found), count in sorted(report.counts.items()):
        if label != found:
            print(f"{count:5} {label} -> {found}")
    print(f"agreement {report.agreement:.1%} of {report.counts.total()} sentences")
    print("pass, and should not:", ", ".join(report.passed) or "none")
    print("fail, and should not:", ", ".join(report.refused) or "none")
    return int(bool(report.passed) or report.agreement < 0.92)


if __name__ == "__main__":
    sys.exit(main())
