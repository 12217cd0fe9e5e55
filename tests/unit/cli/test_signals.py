"""Ctrl-C: the first one stops the command cleanly, a further one kills without waiting."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cli.local.signals import STOPPING, StopSignals


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("stop_signal", STOPPING)
def test_the_first_signal_interrupts(stop_signal: signal.Signals) -> None:
    before = signal.getsignal(stop_signal)
    with StopSignals(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(stop_signal)
    assert signal.getsignal(stop_signal) is before


def test_a_deferred_signal_is_raised_afterwards() -> None:
    reached = False
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt), signals.held_back():  # noqa: PT012
            signal.raise_signal(signal.SIGINT)
            reached = True
        assert reached


def test_a_signal_that_the_interpreter_drops_is_raised_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Dropping:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    exception_types: list[type[BaseException]] = []
    monkeypatch.setattr(
        sys, "unraisablehook", lambda unraisable: exception_types.append(unraisable.exc_type)
    )
    with StopSignals() as signals:
        Dropping()
        assert exception_types == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt), signals.held_back():
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)  # the next one is not ignored either


def test_no_exception_is_raised_once_the_command_ends(
    sleeper: subprocess.Popen[bytes],
) -> None:
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signals.end_with(lambda: [sleeper.pid], lambda _: None)
        with signals.held_back():
            signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL


def test_a_further_signal_kills_the_awaited_process(sleeper: subprocess.Popen[bytes]) -> None:
    messages: list[str] = []
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signals.end_with(lambda: [sleeper.pid], messages.append)
        signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL
        signal.raise_signal(signal.SIGTERM)  # a process that has already exited is no error
    assert messages


def test_the_first_signal_kills_when_the_command_already_ends(
    sleeper: subprocess.Popen[bytes],
) -> None:
    with StopSignals() as signals:
        signals.end_with(lambda: [sleeper.pid], lambda _: None)
        signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL
