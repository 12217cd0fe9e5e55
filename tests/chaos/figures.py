"""What a run has measured, for `docs/guarantees.md`; written where $VIGIL_TEST_FIGURES says, and else nowhere."""

import json
import os
import platform
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

PATH: Final = "VIGIL_TEST_FIGURES"


class Figures:
    """Counts and times by name; a test adds to them what it has shown, so that what failed is not counted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def sample(self, name: str, seconds: float) -> None:
        self._seconds[name].append(seconds)

    def described(self) -> dict[str, Any]:
        """As JSON; of times the median and the longest, in seconds."""
        times = {
            name: {"median": round(median(found), 2), "longest": round(max(found), 2)}
            for name, found in self._seconds.items()
        }
        return {
            "measured_on": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
            "counts": dict(sorted(self._counts.items())),
            "seconds": dict(sorted(times.items())),
        }

    def write(self) -> None:
        """Does nothing where nobody asked for it."""
        path = os.environ.get(PATH)
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(json.dumps(self.described(), indent=2) + "\n")
