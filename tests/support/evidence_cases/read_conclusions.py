"""Conclusions with what a careful reader says of each sentence, and the comparison of a model's verdicts with them.

One JSON object in a line: cited nodes with their quotes, the text, and its sentences with `truth`. They are read as the
phase `verification` reads a conclusion: `requests` are its messages, `judge` parses answers as it does.

`speaker_conclusions.jsonl` has nodes with a `speaker`. Each recorded answer has the start of the SHA-256 of its request, so
that it is an answer to what is requested now. All were given to the prompt of version 4, before "values" of a claim became
"verdicts on values" in it, by a strong model that had not seen the labels.

`python -m tests.support.evidence_cases.read_conclusions CASES` prints one JSON object with `id`, `system`, `message` and
`request` for each case. With `--answers FILE`, whose lines have `id` and `verdicts`, it compares them with the labels.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid5

from shared.graph.conclusions.readings import Draft, material_of
from shared.graph.conclusions.sentences import Sentence
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


ANSWERS = {
    "read_conclusions.jsonl": "read_answers.jsonl",
    "speaker_conclusions.jsonl": "speaker_answers.jsonl",
}
"""The files of this folder with cases, and with the answers of a strong model to their requests."""


def conclusion_cases(name: str) -> list[Case]:
    """The cases of a file of this folder."""
    return list(_lines(files(__package__).joinpath(name)))


def recorded_answers(name: str) -> dict[str, list[str]]:
    """The answers to the cases of a file of this folder, by case. Raises ValueError if a request has changed since."""
    requests = {case["id"]: request_sha256(case) for case in conclusion_cases(name)}
    lines = list(_lines(files(__package__).joinpath(ANSWERS[name])))
    if changed := [line["id"] for line in lines if line["request"] != requests[line["id"]]]:
        raise ValueError(f"these requests have changed since they were answered: {changed}")
    return {line["id"]: line["verdicts"] for line in lines}


def request_sha256(case: Case) -> str:
    """The first 16 digits of the SHA-256 of what is requested of a case, without the prompt."""
    return sha256(message_of(material(case)).encode()).hexdigest()[:16]


def _lines(file: Path | Traversable) -> Iterator[Mapping[str, Any]]:
    yield from map(json.loads, file.read_text("utf-8").splitlines())


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
            speaker=node.get("speaker"),
            verdict=None,
            title="",
            url="",
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
    cases = list(_lines(arguments.cases))
    if arguments.answers is None:
        for case in cases:
            line = {
                "id": case["id"],
                "system": SYSTEM_PROMPT,
                "message": message_of(material(case)),
                "request": request_sha256(case),
            }
            print(json.dumps(line, ensure_ascii=False))
        return 0
    answers = {line["id"]: line["verdicts"] for line in _lines(arguments.answers)}
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
