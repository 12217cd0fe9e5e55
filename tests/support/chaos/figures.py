"""Measurements of a test run for `docs/guarantees.md`, written to the file that $VIGIL_TEST_FIGURES names, if any."""

import json
import os
import platform
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

PATH: Final = "VIGIL_TEST_FIGURES"


class Figures:
    """Counts and times by name. A test adds them after its assertions, so that failures are not counted."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def sample(self, name: str, seconds: float) -> None:
        self._seconds[name].append(seconds)

    def described(self) -> dict[str, Any]:
        """The measurements as JSON; every time in seconds."""
        return {
            "measured_on": datetime.now(UTC).date().isoformat(),
            "machine": f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}",
            "counts": dict(sorted(self._counts.items())),
            "seconds": dict(sorted(self._seconds.items())),
        }

    def write(self) -> None:
        """Merge with the measurements of earlier parts of the run. Does nothing without $VIGIL_TEST_FIGURES."""
        path = Path(os.environ.get(PATH) or os.devnull)
        if path.is_file():
            earlier = json.loads(path.read_text())
            self._counts.update(earlier["counts"])
            for name, samples in earlier["seconds"].items():
                self._seconds[name] = [*samples, *self._seconds[name]]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.described(), indent=2) + "\n")
