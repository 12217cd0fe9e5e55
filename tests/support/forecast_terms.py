"""Required forecast terms of conclusions, for tests of something else."""

import json
from datetime import UTC, datetime
from typing import Any, Final

from shared.database.tables.agents import DEFAULT_ACTIONS

ANALYSIS_TERMS: Final[dict[str, Any]] = {"confidence": 0.5}
"""For an analysis."""
ADVICE_TERMS: Final[dict[str, Any]] = {
    **ANALYSIS_TERMS,
    # Independent of today's date, which would make different advice tomorrow.
    "horizon": f"{datetime.now(UTC).year + 1}-12-31",
    "invalidation": "Figures of the next quarter that tell of the contrary.",
}
"""For advice."""
ACTIONS: Final[dict[str, str]] = json.loads(DEFAULT_ACTIONS)
"""The words of an agent for which none were chosen."""
