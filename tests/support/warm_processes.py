"""Starts Python programs of this project as forks of a server that has imported them, which saves each the imports.

Each is a real process with its own environment, files, signals and exit code. What depends on the start of the
interpreter (imports, a changed clock, `vigil up`, the installed script) needs an interpreter of its own. The server and
the programs end with the process that started the server.
"""

import asyncio
import atexit
import io
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from select import select
from typing import IO, Final, NoReturn

import cli.commands
import services
from cli.local.processes import signal_at_parents_death

_MAX_MESSAGE_BYTES: Final = 1_000_000
_PID_BYTES: Final = 20
_POLL_SECONDS: Final = 0.01
_MAX_WAIT_SECONDS: Final = 120.0
_FLUSH_FAILED: Final = 120  # the interpreter's exit code if it cannot write all output


class WarmProcess:
    """A started program; used like `asyncio.subprocess.Process`, and like `subprocess.Popen` by `poll`."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = None
        self.stdout: asyncio.StreamReader | None = None
        self.stderr: asyncio.StreamReader | None = None
        self._status = status
        self._exit_code: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None while the program runs."""
        return self.poll()

    def poll(self) -> int | None:
        if self._exit_code is None:
            with suppress(BlockingIOError):
                exit_code = self._status.recv(20)
                assert exit_code, "the server of warm processes has died"
                self._exit_code = int(exit_code)
                self._status.close()
        return self._exit_code

    async def wait(self) -> int:
        """Returns the exit code. Raises TimeoutError if the program does not end."""
        async with asyncio.timeout(_MAX_WAIT_SECONDS):
            while (exit_code := self.poll()) is None:  # noqa: ASYNC110  # nothing could set an event
                await asyncio.sleep(_POLL_SECONDS)
        return exit_code

    def wait_blocking(self, timeout_seconds: float = _MAX_WAIT_SECONDS) -> int:
        """The same without asyncio."""
        deadline = time.monotonic() + timeout_seconds
        while (exit_code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} still runs after {timeout_seconds} s")
            time.sleep(_POLL_SECONDS)
        return exit_code

    def send_signal(self, signal_number: int) -> None:
        """Raises ProcessLookupError if it has ended."""
        if self.poll() is not None:
            raise ProcessLookupError
        os.kill(self.pid, signal_number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def communicate(self, stdin: bytes = b"") -> tuple[bytes, bytes]:
        """Writes `stdin`, which must fit into a pipe's buffer, and reads the outputs to their end."""
        if self.stdin is not None:
            self.stdin.write(stdin)
            self.stdin.close()
        outputs = await asyncio.gather(
            *(
                stream.read() if stream is not None else _no_output()
                for stream in (self.stdout, self.stderr)
            )
        )
        await self.wait()
        return outputs[0], outputs[1]


async def _no_output() -> bytes:
    return b""


async def start_python(
    *arguments: str,
    env: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> WarmProcess:
    """Like `asyncio.create_subprocess_exec(sys.executable, *arguments, …)`, for `-m MODULE …` and `-c PROGRAM …`.

    Without `stdin` it reads nothing.
    """
    ours: dict[str, int] = {}
    with ExitStack() as theirs:

        def pipe(*, name: str, reads: bool) -> int:
            ends = os.pipe()
            ours[name] = ends[1 if reads else 0]
            theirs.callback(os.close, ends[0 if reads else 1])
            return ends[0 if reads else 1]

        def output(name: str, wanted: int | IO[bytes] | None, inherited: int) -> int:
            if wanted is None:
                return inherited
            if wanted == subprocess.PIPE:
                return pipe(name=name, reads=False)
            if wanted == subprocess.DEVNULL:
                return theirs.enter_context(open(os.devnull, "wb")).fileno()
            if wanted == subprocess.STDOUT:
                return out
            return wanted if isinstance(wanted, int) else wanted.fileno()

        source = (
            pipe(name="stdin", reads=True)
            if stdin == subprocess.PIPE
            else theirs.enter_context(open(os.devnull, "rb")).fileno()  # noqa: ASYNC230  # does not block
        )
        out = output("stdout", stdout, 1)
        err = output("stderr", stderr, 2)
        process = start_blocking(arguments, env, fds=(source, out, err))
    if "stdin" in ours:
        process.stdin = os.fdopen(ours["stdin"], "wb", buffering=0)
    if "stdout" in ours:
        process.stdout = await _reader(ours["stdout"])
    if "stderr" in ours:
        process.stderr = await _reader(ours["stderr"])
    return process


async def _reader(fd: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", buffering=0)
    )
    return reader


def start_blocking(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    fds: tuple[int, int, int],
    open_files: tuple[int, int] | None = None,
    directory: Path | None = None,
) -> WarmProcess:
    """The same without asyncio. `fds` are stdin, stdout and stderr; `open_files` the soft and hard limit of open files.

    Without `directory` the program starts in that of the tests.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(_server_address())
    order = {
        "arguments": list(arguments),
        "environment": dict(env),
        "directory": str(directory or Path.cwd()),
        "open_files": open_files,
    }
    socket.send_fds(connection, [json.dumps(order).encode()], list(fds))
    connection.shutdown(socket.SHUT_WR)
    # Exactly the pid: a short program has already ended, and its exit code follows.
    pid = connection.recv(_PID_BYTES, socket.MSG_WAITALL)
    assert pid, "the server of warm processes has died"
    connection.setblocking(False)
    return WarmProcess(int(pid), connection)


def run_vigil(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command of `vigil` and returns its output as text. Raises TimeoutError."""
    return run_module(
        "cli", arguments, environment, timeout_seconds=timeout_seconds, directory=directory
    )


def run_module(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m MODULE …` and returns its output as text. Raises TimeoutError."""
    with (
        open(os.devnull, "rb") as nothing,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        fds = nothing.fileno(), out.fileno(), err.fileno()
        process = start_blocking(
            ["-m", module, *arguments], environment, fds=fds, directory=directory
        )
        try:
            exit_code = process.wait_blocking(timeout_seconds)
        except TimeoutError:
            process.kill()
            raise
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess([module, *arguments], exit_code, out.read(), err.read())


@cache
def _server_address() -> str:
    """Starts the server of this process at the first call. It ends with this process."""
    directory = tempfile.TemporaryDirectory(prefix="vigil-warm-")  # closed to other users
    atexit.register(directory.cleanup)
    address = f"{directory.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm_processes", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return address


def _serve(address: str) -> None:
    for package in (cli.commands, services):
        for module in iter_modules(package.__path__, f"{package.__name__}."):
            import_module(f"{module.name}.app" if package is services else module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen(128)
        print("ready", flush=True)
        # Standard input is closed when the process that started the server ends.
        while select([sys.stdin, listener], [], [])[0] == [listener]:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _supervise(connection)
            connection.close()


def _supervise(connection: socket.socket) -> NoReturn:
    """Forks the program; reports its pid, then its exit code, negative for a signal."""
    signal_at_parents_death(signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, fds = b"", list[int]()
    while True:
        data, received, _, _ = socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 3)
        if not data:
            break
        message += data
        fds += received
    order = json.loads(message)
    pid = os.fork()
    if pid == 0:
        signal_at_parents_death(signal.SIGKILL)
        connection.close()
        _run(fds=fds, **order)
    for fd in fds:
        os.close(fd)
    connection.sendall(str(pid).ljust(_PID_BYTES).encode())
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: str,
    open_files: tuple[int, int] | None,
    fds: Sequence[int],
) -> NoReturn:
    """Runs the program as an interpreter with these arguments would; does not return."""
    for target, source in enumerate(fds):
        os.dup2(source, target)
        os.close(source)
    os.setpgid(0, 0)  # a signal from the keyboard concerns the tests only
    # Whatever the tests were started with: a background job, for example, ignores SIGINT.
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(directory)
    if open_files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, open_files)
    os.environ.clear()
    os.environ.update(environment)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering="PYTHONUNBUFFERED" in environment)
    option, program, *rest = arguments
    sys.argv = [program, *rest]
    exit_code = 0
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(program, {"__name__": "__main__"})
    except SystemExit as ended:
        exit_code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  # printed as the interpreter does
        traceback.print_exc()
        exit_code = 1
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        exit_code = _FLUSH_FAILED
    os._exit(exit_code)


if __name__ == "__main__":
    _serve(sys.argv[1])
