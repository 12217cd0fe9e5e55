"""An installation for as long as a block lasts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from cli.corpus import corpus_cache
from cli.local.binaries import require_local_extra
from cli.local.datadir import DataDirectory
from cli.local.stack import Stack
from cli.outside import Outside
from cli.signals import StopSignals


@contextmanager
def installation(
    data: DataDirectory,
    outside: Outside,
    choose_ports: Callable[[], Mapping[str, int]],
    say: Callable[[str], None],
) -> Iterator[Stack]:
    """Started when the block begins, ended in order however the block ends. Raises LocalError.

    A stopping signal raises KeyboardInterrupt in the block; another one while it ends kills what is slow.
    """
    require_local_extra()
    data.create()
    with data.locked(), StopSignals() as signals:
        stack = Stack(data, outside, choose_ports(), corpus_cache(), signals.held_back)
        try:
            stack.start(say)
            with data.announced(stack.running):
                yield stack
        finally:
            say(
                "ending: the actors first, then NATS and PostgreSQL (Ctrl-C again to wait for nothing)"
            )
            signals.end_with(stack.slowest, say)
            stack.stop()
