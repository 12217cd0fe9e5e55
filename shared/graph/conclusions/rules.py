"""What is stored with a conclusion about how it was accepted. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from shared.graph.conclusions.citations import MIN_ANALYSES
from shared.tools import Json

_MIN_ANALYSES: Final = "min_analyses"
HAS_PROOF: Final = "has_proof"
"""Whether the proof was stored with the conclusion."""


def accepted_by(min_analyses: int | None) -> Json:
    """`min_analyses`: how many analyses an advice had to cite; None for an analysis."""
    return {HAS_PROOF: True} | ({} if min_analyses is None else {_MIN_ANALYSES: min_analyses})


def has_proof(rules: Mapping[str, Any] | None) -> bool:
    """Whether the conclusion's proof was stored with it. Releases before 0.4 stored none."""
    return rules is not None and rules.get(HAS_PROOF) is True


def min_analyses(rules: Mapping[str, Any]) -> int:
    """How many analyses an advice had to cite when it was written."""
    number = rules.get(_MIN_ANALYSES)
    return number if isinstance(number, int) else MIN_ANALYSES
