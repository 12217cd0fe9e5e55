"""What a conclusion must commit itself to, for tests that are about something else."""

from datetime import UTC, datetime
from typing import Any, Final

SURE: Final[dict[str, Any]] = {"confidence": 0.5}
"""Of an analysis."""
COMMITTED: Final[dict[str, Any]] = {
    **SURE,
    # Not a time from today on, which makes other advice of it tomorrow.
    "horizon": f"{datetime.now(UTC).year + 1}-12-31",
    "invalidation": "Figures of the next quarter that tell of the contrary.",
}
"""Of advice."""
