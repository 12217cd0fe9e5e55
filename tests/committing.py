"""What a conclusion must commit itself to, for tests that are about something else."""

from typing import Any, Final

SURE: Final[dict[str, Any]] = {"confidence": 0.5}
"""Of an analysis."""
COMMITTED: Final[dict[str, Any]] = {
    **SURE,
    "horizon": "3 months",
    "invalidation": "Figures of the next quarter that tell of the contrary.",
}
"""Of advice."""
