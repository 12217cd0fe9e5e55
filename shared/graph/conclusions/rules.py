"""What is stored with a conclusion about how it was accepted. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from shared.graph.conclusions.citations import MIN_ANALYSES
from shared.tools import Json

_MIN_ANALYSES: Final = "min_analyses"
PROOF: Final = "proof"
"""SHA-256 of the proof that was stored with the conclusion, in hexadecimal."""


def accepted_by(min_analyses: int | None, proof_sha256: str) -> Json:
    """`min_analyses`: how many analyses an advice had to cite; None for an analysis."""
    return {PROOF: proof_sha256} | ({} if min_analyses is None else {_MIN_ANALYSES: min_analyses})


def proof_sha256(rules: Mapping[str, Any] | None) -> str | None:
    """The hash of the conclusion's proof; None: a release that stores none has written it."""
    stored = (rules or {}).get(PROOF)
    return stored if isinstance(stored, str) else None


def min_analyses(rules: Mapping[str, Any]) -> int:
    """How many analyses an advice had to cite when it was written."""
    number = rules.get(_MIN_ANALYSES)
    return number if isinstance(number, int) else MIN_ANALYSES
