"""Ctrl-C: the first one ends the command in order, a further one does not wait."""

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


@pytest.mark.parametrize("sent", STOPPING)
def test_the_first_signal_interrupts(sent: signal.Signals) -> None:
    before = signal.getsignal(sent)
    with StopSignals(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(sent)
    assert signal.getsignal(sent) is before


def test_a_signal_that_is_held_back_comes_afterwards() -> None:
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

    dropped: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: dropped.append(told.exc_type))
    with StopSignals() as signals:
        Dropping()
        assert dropped == [KeyboardInterrupt]
        with pytest.raises(KeyboardInterrupt), signals.held_back():
            pass
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)  # nor is the next one ignored


def test_once_the_command_ends_nothing_is_raised_any_more(
    sleeper: subprocess.Popen[bytes],
) -> None:
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signals.end_with(lambda: [sleeper.pid], lambda _: None)
        with signals.held_back():
            signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL


def test_a_further_signal_kills_what_is_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    said: list[str] = []
    with StopSignals() as signals:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signals.end_with(lambda: [sleeper.pid], said.append)
        signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL
        signal.raise_signal(signal.SIGTERM)  # who has gone already is no error
    assert said


def test_ending_for_another_reason_is_hurried_by_the_first(
    sleeper: subprocess.Popen[bytes],
) -> None:
    with StopSignals() as signals:
        signals.end_with(lambda: [sleeper.pid], lambda _: None)
        signal.raise_signal(signal.SIGINT)
        assert sleeper.wait(10) == -signal.SIGKILL
