"""Linux system calls that Python does not offer: parent-death signal and user namespace."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

LINUX: Final = sys.platform.startswith("linux")

_PR_SET_PDEATHSIG: Final = 1
_CLONE_NEWUSER: Final = 0x10000000


def before_exec(
    death_signal: signal.Signals, *, appear_as_uid: int | None = None
) -> Callable[[], None]:
    """What a child does between fork and exec, for `subprocess`'s `preexec_fn`.

    It is sent `death_signal` when the thread that started it ends, and sees itself as
    `appear_as_uid`. The C library is opened here, in the parent, so that the child need not load
    anything.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def prepare() -> None:
        if appear_as_uid is not None:
            _enter_user_namespace(libc, appear_as_uid)
        # After the namespace: a change of credentials clears the signal.
        signal_at_parents_death(death_signal, libc)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before the signal was armed

    return prepare


def signal_at_parents_death(death_signal: signal.Signals, libc: ctypes.CDLL | None = None) -> None:
    """Ask the kernel for `death_signal` when the thread that forked this process ends.

    Linux only: elsewhere nothing happens.
    """
    if not LINUX:
        return
    library = libc or ctypes.CDLL(None, use_errno=True)
    if library.prctl(_PR_SET_PDEATHSIG, int(death_signal)) != 0:
        raise _os_error("prctl")


def _enter_user_namespace(libc: ctypes.CDLL, uid: int) -> None:
    """A user namespace of our own, in which root is `uid`; files made stay root's outside."""
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise _os_error("unshare")
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} 0 1"),
        ("gid_map", f"{uid} 0 1"),
    ):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, content.encode())
        os.close(descriptor)


def _os_error(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
