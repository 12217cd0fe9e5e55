"""Labelled conclusions over one small graph: true ones, and false ones with the fault that they have.

Written by hand before the rules of `shared.graph.grounding.conclusions`, but for the longer ones and those of another field.
`[ghana]` in a text is a citation of that element.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from shared.graph.grounding.known import CitedElement
from tests.support.evidence_cases import read_rows

Fault = Literal[
    "number",
    "scale",
    "unit",
    "currency",
    "rounding",
    "date",
    "growth",
    "sign",
    "ratio",
    "share",
    "difference",
    "sum",
    "average",
    "rank",
    "count",
    "operands",
    "other node",
    "name",
]


def _element(values: Sequence[Sequence[Any]], **fields: Any) -> CitedElement:
    return CitedElement(values=tuple((name, value) for name, value in values), **fields)


ELEMENTS: Final[Mapping[str, CitedElement]] = {
    row.pop("key"): _element(**row) for row in read_rows("conclusion_elements")
}
MISSION: Final = "Watch the cocoa trade of West Africa and its buyers, such as Barry Callebaut."
_PLACEHOLDER: Final = re.compile(r"\[(\w+)\]")


@dataclass(frozen=True)
class ConclusionCase:
    language: str
    content: str
    """With citations as `[ghana]`."""
    fault: Fault | None = None
    name: str = ""
    summary: str = ""

    @property
    def cited(self) -> list[CitedElement]:
        keys = dict.fromkeys(_PLACEHOLDER.findall(self.content))
        return [ELEMENTS[key] for key in keys if key in ELEMENTS]

    @property
    def texts(self) -> dict[str, str]:
        return {
            key: _PLACEHOLDER.sub(_citation, text)
            for key, text in (
                ("name", self.name),
                ("summary", self.summary),
                ("content", self.content),
            )
            if text
        }


def _citation(match: re.Match[str]) -> str:
    if match[1] not in ELEMENTS:
        return match[0]
    number = list(ELEMENTS).index(match[1]) + 1
    return f"[node:00000000-0000-4000-8000-{number:012}]"


CASES: Final = [ConclusionCase(**row) for row in read_rows("conclusions")]
