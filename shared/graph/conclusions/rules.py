"""Whether the numbers, dates and names of an analysis or advice follow from what it cites. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.enums import ADVICE_TYPE
from shared.graph.conclusions.citations import MIN_ANALYSES
from shared.graph.grounding.conclusions import (
    CONCLUSION_RULES,
    ConclusionFinding,
    check_conclusion,
)
from shared.graph.grounding.known import CitedElement
from shared.graph.grounding.outcomes import Level
from shared.tools import Json

_TEXTS: Final = ("summary", "content", "invalidation", "change")
_TERMS: Final = ("confidence", "horizon", "generated_at")
_MAX_LISTED: Final = 4
_VERSION: Final = "version"
_OWNER_NAMES: Final = "owner_names"
_MIN_ANALYSES: Final = "min_analyses"
HAS_PROOF: Final = "has_proof"
"""Whether the proof was stored with the conclusion."""


def check(
    name: str,
    properties: Mapping[str, Any],
    cited: Sequence[CitedElement],
    owner_texts: Sequence[str],
) -> list[ConclusionFinding]:
    """A finding for each number, date, rank and name of the conclusion. Names in `owner_texts` are allowed."""
    texts = {"name": name}
    texts |= {key: properties[key] for key in _TEXTS if isinstance(properties.get(key), str)}
    terms = {key: properties[key] for key in _TERMS if key in properties}
    return check_conclusion(texts, cited, owner_texts=owner_texts, terms=terms)


def refused(findings: Sequence[ConclusionFinding]) -> list[ConclusionFinding]:
    return [each for each in findings if each.finding.level is Level.LEFT_OUT]


def refusal(type_name: str, findings: Sequence[ConclusionFinding]) -> str:
    """For the model: what does not follow, and how to correct it; empty if nothing is refused."""
    wrong = refused(findings)
    if not wrong:
        return ""
    reasons = [f"{each.text}: {each.finding.reason}" for each in wrong]
    more = f"; and {len(reasons) - _MAX_LISTED} more" if len(reasons) > _MAX_LISTED else ""
    where = (
        "the analyses that it cites or in what these cite"
        if type_name == ADVICE_TYPE
        else "the nodes and edges that it cites"
    )
    return (
        f"{'; '.join(dict.fromkeys(reasons[:_MAX_LISTED]))}{more}. Each number, date and name must be in {where}, or be "
        "computed from such numbers in the same paragraph. Cite what has it, write the arithmetic with its operands, or "
        "leave it out."
    )


def accepted_by(owner_names: Sequence[str], min_analyses: int | None) -> Json:
    """What is stored with a conclusion that these rules accepted, so that it can be checked again."""
    rules: Json = {_VERSION: CONCLUSION_RULES, HAS_PROOF: True}
    if owner_names:
        rules[_OWNER_NAMES] = list(owner_names)
    if min_analyses is not None:
        rules[_MIN_ANALYSES] = min_analyses
    return rules


def is_current(rules: Mapping[str, Any]) -> bool:
    """Whether these rules accepted the conclusion, and not those of another version."""
    return rules.get(_VERSION) == CONCLUSION_RULES


def owner_names(rules: Mapping[str, Any]) -> list[str]:
    """The names that a conclusion took from its agent's mission, which may have changed since."""
    names = rules.get(_OWNER_NAMES)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def has_proof(rules: Mapping[str, Any] | None) -> bool:
    """Whether the conclusion's proof was stored with it. Releases before 0.4 stored none."""
    return rules is not None and rules.get(HAS_PROOF) is True


def min_analyses(rules: Mapping[str, Any]) -> int:
    """How many analyses an advice had to cite when it was written."""
    number = rules.get(_MIN_ANALYSES)
    return number if isinstance(number, int) else MIN_ANALYSES
