"""Commands that fail or are interrupted: signals, exit codes, hostile processes and used ports."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from cli.local.members import (
    API,
    CONSUMER_SERVICES,
    DEMO_PORTS,
    NATS,
    SANDBOX,
    busy_ports,
    demo_ports,
    usual_ports,
)
from cli.local.ports import choose_port, free_port, free_ports
from cli.local.signals import STOPPING, StopSignals
from cli.main import main
from tests.support.attack_mode import in_full
from tests.support.case_files import read_cases
from tests.support.cli.garbage_api import ANSWERS, answering
from tests.support.marks import slow
from tests.support.paths import ROOT
from tests.support.warm_processes import run_vigil

CASES = read_cases(__file__)


TOKEN: Final = f"vgl_{'0' * 43}"
FORBIDDEN: Final = (
    "Traceback", "Exception ignored", "internal error", "Errno", "ydantic", "validation error",
    "value_error", "Value error", "Input should", "httpx", "sqlalchemy", "Client error",
)  # fmt: skip
INTERRUPTED: Final = 130
NOTHING_LISTENS: Final = "http://127.0.0.1:9"
PROGRAM: Final = f"{sys.executable} -m cli"


def environment(home: Path, **variables: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(home),
        "VIGIL_DATA": str(home / "data"),
        **variables,
    }


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Restores the handler of SIGINT, which `main` replaces."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def check(result: subprocess.CompletedProcess[str], exit_codes: Sequence[int]) -> None:
    text = result.stdout + result.stderr
    assert [word for word in FORBIDDEN if word in text] == [], text
    assert result.returncode in exit_codes, text


@pytest.mark.parametrize("command", ["agent show x", "export x", "tail", "verify --all"])
def test_an_api_that_answers_nonsense_is_reported(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process, as `main` runs a command; the tests below start processes."""
    for name, value in environment(tmp_path, VIGIL_TOKEN=TOKEN).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["vigil", *command.split()])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    failures = {}
    for kind, answer in ANSWERS.items():
        with answering(answer) as url, interrupts_kept():
            monkeypatch.setenv("VIGIL_URL", url)
            with pytest.raises(SystemExit) as ended:
                main()
        printed = capfd.readouterr()
        text = printed.out + printed.err
        last_line = ["", *printed.err.splitlines()][-1]
        is_reported = ended.value.code == 1 and last_line.startswith("vigil: ")
        if not is_reported or any(word in text for word in FORBIDDEN):
            failures[kind] = (ended.value.code, text)
    assert failures == {}


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        ("doctor", {"VIGIL_PRICES": "nonsense"}, "VIGIL_PRICES: write JSON"),
        ("doctor", {"VIGIL_PRICES": '{"m": [1]}'}, "VIGIL_PRICES"),
        ("doctor", {"VIGIL_PRICES": '{"m": ["a", 2]}'}, "write a number (it is 'a')"),
        ("doctor", {"VIGIL_MODEL_OPTIONS": '{"observer": 3}'}, "VIGIL_MODEL_OPTIONS"),
        ("doctor", {"VIGIL_MODEL_OPTIONS": '{"dreaming": {}}'}, "VIGIL_MODEL_OPTIONS"),
        ("doctor", {"VIGIL_PORT": "many"}, "VIGIL_PORT: write a whole number (it is 'many')"),
        ("doctor", {"VIGIL_MODEL_API": "x"}, "VIGIL_MODEL_API: choose from 'chat'"),
        ("doctor", {"VIGIL_CONCURRENCY": "0"}, "VIGIL_CONCURRENCY: it must be 1 or more"),
        ("doctor", {"VIGIL_SECRETS_DIR": "/etc/passwd"}, "VIGIL_SECRETS_DIR: name directories"),
        ("up", {"VIGIL_PRICES_FILE": "/nonexistent"}, "the prices in /nonexistent cannot be used"),
        ("up", {"VIGIL_PRICES_FILE": "/etc/passwd"}, "it is not valid TOML"),
        ("demo", {"VIGIL_PRICES_FILE": "/etc/passwd"}, "it is not valid TOML"),
        ("up", {"VIGIL_SANDBOX_PACE_SECONDS": "x"}, "a number of seconds from 0 to 60, not 'x'"),
        ("up --port 0", {}, "'--port': it must be 1 or more"),
        ("up --port 70000", {}, "'--port': it must be 65535 or less"),
        ("agent list", {"VIGIL_PROFILE": "none"}, "there is no profile 'none'"),
        ("agent list", {"VIGIL_TOKEN": "abc"}, "this is not a token"),
        ("agent list", {"VIGIL_URL": "http://["}, "Vigil does not answer"),
        ("agent list", {"VIGIL_URL": "://"}, "write http://HOST:PORT"),
        ("agent list", {"VIGIL_URL": "ftp://x"}, "write http://HOST:PORT"),
        ("agent list", {"VIGIL_URL": NOTHING_LISTENS}, "nothing is listening there"),
        ("agent list", {"VIGIL_DATA": "/dev/null"}, "data directory /dev/null"),
        ("up", {"VIGIL_DATA": "/dev/null"}, "it is a file, not a directory"),
        ("up", {"VIGIL_DATA": "/proc/none"}, "data directory /proc/none"),
        ("keys /dev/null", {}, "/dev/null"),
        ("import /nonexistent", {}, "/nonexistent cannot be read: No such file"),
        ("import /proc", {}, "/proc cannot be read: Is a directory"),
        ("login --url http://x --token -", {}, "this is not a token"),
    ],
)
def test_malformed_settings_are_named(
    tmp_path: Path, arguments: str, variables: Mapping[str, str], words: str
) -> None:
    result = run_vigil(arguments.split(), environment(tmp_path, **variables), timeout_seconds=60)
    check(result, [1, 2])
    assert words in result.stderr


@pytest.mark.parametrize(
    ("script", "exit_codes"),
    [
        ("{vigil} agent --help | head -0; exit ${{PIPESTATUS[0]}}", [0]),
        ("{vigil} --help > /dev/full", [1]),
        ("{vigil} agent list 2>&-", [1]),
        ("{vigil} completion zsh <&-", [0]),
        ("COLUMNS=10 {vigil} agent create --help", [0]),
        ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {vigil} agent list", [1]),
        ("env -u HOME {vigil} agent list", [1]),
        ("{vigil} chat $'\\xff' hello", [1, 2]),
        *slow(
            ("{vigil} --help | true; exit ${{PIPESTATUS[0]}}", [0]),
            ("{vigil} --version > /dev/full", [1]),
            ("{vigil} agent list 2> /dev/full", [1]),
            ("{vigil} costs --help >&-", [0]),
            ("COLUMNS=0 {vigil} --help", [0]),
            ("COLUMNS=wide {vigil} --help", [0]),
            ("PYTHONIOENCODING=latin-1 {vigil} agent create --help", [0]),
            ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {vigil} doctor", [0]),
            ("TERM=dumb {vigil} inbox --help", [0]),
            ("{vigil} agent list --url $'http://\\xff'", [2]),
            ("{vigil} verify $'\\xff' --url http://127.0.0.1:9", [1, 2]),
            ("{vigil} agent prompts x --phase observer --from <(printf '\\xff') --url http://127.0.0.1:9", [1, 2]),
            ("{vigil} doctor | head -0; exit ${{PIPESTATUS[0]}}", [0]),
            ("{vigil} doctor > /dev/full", [1]),
            ("COLUMNS=10 {vigil} doctor", [0]),
        ),
    ],
)  # fmt: skip
def test_output_and_input_that_fail_are_no_tracebacks(
    tmp_path: Path, script: str, exit_codes: list[int]
) -> None:
    result = subprocess.run(
        ["bash", "-c", script.format(vigil=PROGRAM)],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )
    check(result, exit_codes)


MARKED: Final = (
    "import os, signal\n"
    "signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    "os.write(1, b'.')\n"
    "from cli.main import main\n"
    "main()"
)
"""Says when it begins: what precedes belongs to the interpreter."""


def interrupted(arguments: Sequence[str], home: Path, delay_seconds: float) -> tuple[int, str]:
    """The exit code and output of a command that gets an interrupt so long after its begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", MARKED, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"."
    time.sleep(delay_seconds)  # the instant is what the test varies
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, (stdout + stderr).decode(errors="replace")


def test_an_interrupt_at_any_instant_ends_without_a_traceback(tmp_path: Path, seed: int) -> None:
    instants = random.Random(seed)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        commands = (
            (["--help"], 0.2),
            (["agent", "list", "--url", url], 1.0),
            (["tail", "--url", url], 1.0),
            (["agent", "delete", "x", "--url", url], 1.0),
            (["login", "--url", url], 0.8),
            (["doctor"], 1.5),
        )
        for _ in range(10 if in_full() else 1):
            for arguments, span_seconds in commands:
                delay = instants.uniform(0, span_seconds)
                code, text = interrupted(arguments, tmp_path, delay)
                assert [word for word in FORBIDDEN if word in text] == [], (arguments, delay, text)
                # Before `main` is in charge, the signal ends the process.
                ended = {0, 2, INTERRUPTED, -signal.SIGINT}
                assert code in ended, (arguments, delay, text)


@pytest.mark.slow
def test_an_interrupt_while_an_installation_starts_or_stops(tmp_path: Path, seed: int) -> None:
    instants = random.Random(seed)
    for number in range(4):
        delay = instants.uniform(0, 8)
        code, text = interrupted(["up"], tmp_path / str(number), delay)
        assert [word for word in FORBIDDEN if word in text] == [], (delay, text)
        assert code in (0, INTERRUPTED, -signal.SIGINT), (delay, text)


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        ("--help", 0),
        ("--version", 0),
        ("completion fish", 0),
        ("agent list", 1),
        (f"agent list --url {NOTHING_LISTENS}", 1),
        (f"verify --all --url {NOTHING_LISTENS}", 1),
        ("logout", 2),
        ("", 2),
        ("agent", 2),
        ("agnt", 2),
        ("agent show", 2),
        ("agent list extra", 2),
        ("agent list --nonsense", 2),
        ("iterations x --limit 0", 2),
        ("iterations x --limit many", 2),
        ("costs --by moon", 2),
        ("verify", 2),
        ("token create x --expires soon", 2),
    ],
)
def test_a_command_ends_with_the_documented_exit_code(
    tmp_path: Path, arguments: str, exit_code: int
) -> None:
    result = run_vigil(arguments.split(), environment(tmp_path), timeout_seconds=60)
    assert result.returncode == exit_code, result.stdout + result.stderr
    assert (result.stderr == "") is (exit_code == 0)


@pytest.mark.parametrize(("arguments", "words"), CASES["a_wrong_command_line_is_explained"])
def test_a_wrong_command_line_is_explained(tmp_path: Path, arguments: str, words: str) -> None:
    result = run_vigil(arguments.split(), environment(tmp_path), timeout_seconds=60)
    assert words in result.stderr
    assert result.stdout == ""


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        result = run_vigil(["up", "--port", str(port)], environment(tmp_path), timeout_seconds=60)
    assert result.returncode == 2, result.stderr
    assert f"port {port} is in use by " in result.stderr
    assert f"(process {os.getpid()})" in result.stderr
    assert "name another port with --port" in result.stderr


@pytest.mark.parametrize(
    "variables", CASES["a_key_that_the_provider_refuses_is_an_error_before_anything_starts"]
)
def test_a_key_that_the_provider_refuses_is_an_error_before_anything_starts(
    tmp_path: Path, variables: Mapping[str, str]
) -> None:
    with answering(ANSWERS["refused"]) as url:
        values = {name: value.replace("URL", url) for name, value in variables.items()}
        result = run_vigil(["up"], environment(tmp_path, **values), timeout_seconds=60)
    assert result.returncode == 2, result.stderr
    assert "refuses the key in " in result.stderr
    assert "secret" not in result.stdout + result.stderr
    assert not (tmp_path / "data").exists()


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


def test_every_member_has_its_own_port() -> None:
    for ports in (usual_ports(8080), demo_ports()):
        assert {*CONSUMER_SERVICES, API, SANDBOX, NATS} <= set(ports)
        assert len(set(ports.values())) == len(ports)


def test_demo_ports_do_not_overlap_with_the_usual_ports() -> None:
    assert set(demo_ports().values()) & set(usual_ports(8080).values()) == set()
    assert min(demo_ports().values()) >= DEMO_PORTS.start


def test_a_port_in_use_is_avoided_and_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ports = usual_ports(port)
        assert ports[API] != port
        assert port in busy_ports(ports, port)


def test_the_requested_port_is_used() -> None:
    port = free_port()
    assert usual_ports(port)[API] == port


def test_installations_of_two_processes_do_not_choose_the_same_ports() -> None:
    """Only the supervisor calls these ports; it could mistake another installation's services for its own."""
    code = "from cli.local.members import *; print(*(usual_ports(0)[name] for name in CONSUMER_SERVICES))"
    with ThreadPoolExecutor() as pool:
        outputs = pool.map(subprocess.check_output, [[sys.executable, "-c", code]] * 2)
        first, second = ({*map(int, ports.split())} for ports in outputs)
    assert len(first) == len(second) == len(CONSUMER_SERVICES)
    assert first & second == set()


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_free_port_can_be_listened_on() -> None:
    with socket.create_server(("127.0.0.1", free_port())):
        pass


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50


def test_the_preferred_port_is_used_if_it_is_free() -> None:
    preferred = free_port()
    assert choose_port(preferred) == preferred


def test_a_port_in_use_is_replaced(used_port: int) -> None:
    port = choose_port(used_port)
    assert port != used_port
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_a_port_in_use_on_all_addresses_is_replaced() -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        assert choose_port(port) != port


def test_a_reserved_port_is_avoided() -> None:
    preferred = free_port()
    assert choose_port(preferred, avoid=[preferred]) != preferred
