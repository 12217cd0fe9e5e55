"""An installation for as long as a block lasts."""

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from cli.corpus import corpus_cache
from cli.local.binaries import require_local_extra
from cli.local.datadir import DataDirectory
from cli.local.stack import Stack
from cli.outside import Outside
from cli.signals import StopSignals

OPEN_FILES: Final = 65_536
"""The limit that every process is given where the machine allows it: each connection is an open file. The usual soft
limit of 1,024 comes from programs that use select()."""
_OPEN_FILES_OF_MACOS: Final = 10_240
"""What macOS allows where it calls the hard limit infinite."""


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
    raise_open_files()
    with _closed_to_others():
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


def raise_open_files() -> None:
    """Raise this process's soft limit of open files, which its children inherit, to the hard one or OPEN_FILES."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (OPEN_FILES, _OPEN_FILES_OF_MACOS):
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        if soft == resource.RLIM_INFINITY or soft >= allowed:
            return
        with suppress(ValueError):  # macOS has a lower limit than the hard one that it tells
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
            return


@contextmanager
def _closed_to_others() -> Iterator[None]:
    """Within, whatever this process and its children write or listen on in the file system is their user's alone."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
