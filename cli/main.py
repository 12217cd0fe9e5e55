"""Entry point of `vigil`: interrupts, output that cannot be written, and errors. `cli.app` has the commands.

It imports little, because an interrupt (Ctrl-C) before it is in charge would end in a traceback.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # as in `typing`, whose import takes long

if TYPE_CHECKING:
    from types import FrameType
    from typing import Final, NoReturn

SUCCESS: Final = 0
FAILED: Final = 1
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130
TRACEBACK_VARIABLE: Final = "VIGIL_TRACEBACK"
_CONTROLS: Final = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {*map(ord, "\n\t")})
"""To drop control characters, as `cli.render.console` does; its import takes too long here."""


def main() -> NoReturn:
    """Runs the command line of this process, and exits with its exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Until a command begins there is nothing to clean up.
        signal.signal(signal.SIGINT, _exit_at_once)
    sys.unraisablehook = _print_no_interrupt
    _open_missing_streams()
    code = _write_out(_run())
    signal.signal(signal.SIGINT, _exit_at_once)
    raise SystemExit(code)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt, so that a command can clean up."""
    if signal.getsignal(signal.SIGINT) is _exit_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _run() -> int:
    """Runs the command and prints its error, if it has one. Returns the exit code."""
    try:
        from cli.app import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        _discard_output()
        return SUCCESS
    except Exception as error:  # noqa: BLE001  # the last resort
        return _report(error)


def _report(error: Exception) -> int:
    """Prints an error in one line, without a traceback. Returns the exit code."""
    try:
        from cli.errors import describe

        text, code = describe(error)
        if os.environ.get(TRACEBACK_VARIABLE):
            import traceback

            traceback.print_exception(error)
        _print_error(text)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError:
        _discard_output()  # stderr cannot be written
        return FAILED


def _print_error(text: str) -> None:
    name = "vigil:"
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        name = f"\x1b[31m{name}\x1b[0m"
    # A text from a file or a server must not control the terminal.
    print(name, text.translate(_CONTROLS), file=sys.stderr, flush=True)


def _open_missing_streams() -> None:
    """Opens what the caller has closed, and makes characters that the terminal lacks print as `?`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # until the process ends
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
        if encoding not in ("utf-8", "utf8") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _write_out(code: int) -> int:
    """Writes what is still buffered. Returns the exit code, which is an error if that fails."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        code = code or _report(error)
        _discard_output()
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _discard_output() -> None:
    """What is still buffered is dropped, because the interpreter would fail to write it at its end."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(devnull, stream.fileno())


def _exit_at_once(_: int, __: FrameType | None) -> NoReturn:
    os._exit(INTERRUPTED)


def _print_no_interrupt(unraisable: sys.UnraisableHookArgs) -> None:
    """An interrupt that arrives in a destructor is dropped by the interpreter, which prints a traceback.

    A command with stop signals of its own raises it again later; any other ends here.
    """
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        os._exit(INTERRUPTED)
