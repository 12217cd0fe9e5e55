"""A power failure of NATS, as its store shows it: the newest events are gone, and their sequences are used again."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.local.nats import EmbeddedNats


@contextmanager
def events_that_are_lost(nats: EmbeddedNats, kept: Path) -> Iterator[None]:
    """What is published in the block is lost when it ends. NATS restarts at its begin and at its end."""
    store = nats.data / "jetstream"
    nats.stop()
    shutil.copytree(store, kept)
    nats.start()
    yield
    nats.stop()
    shutil.rmtree(store)
    shutil.copytree(kept, store)
    nats.start()
