"""Runs commands of `vigil` in forked processes of a server that has imported them, which saves each the imports.

A command is a real process with its own environment, output and exit code. What depends on the start of the interpreter
(imports, signals at startup, the installed script) needs `python -m cli`.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pkgutil import iter_modules
from typing import Final, NoReturn

_MAX_MESSAGE_BYTES: Final = 1_000_000


def run_vigil(
    arguments: Sequence[str], environment: Mapping[str, str], *, timeout_seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs one command; like `subprocess.run` with captured text. Raises TimeoutError."""
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
    ):
        connection.settimeout(timeout_seconds)
        connection.connect(_server_address())
        order = json.dumps({"arguments": list(arguments), "environment": dict(environment)})
        socket.send_fds(connection, [order.encode()], [out.fileno(), err.fileno()])
        connection.shutdown(socket.SHUT_WR)
        pid = int(connection.recv(20))
        try:
            status = connection.recv(20)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise
        assert status, "the server of commands has died"
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(
            ["vigil", *arguments], int(status), out.read(), err.read()
        )


@cache
def _server_address() -> str:
    """Starts the server of this process at the first call. It ends with this process."""
    directory = tempfile.TemporaryDirectory(prefix="vigil-cli-")  # closed to other users
    atexit.register(directory.cleanup)
    address = f"{directory.name}/socket"
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.support.warm_cli", address], stdout=subprocess.PIPE
    )
    atexit.register(server.kill)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    return address


def _serve(address: str) -> None:
    from importlib import import_module

    import cli.commands
    import cli.main

    for module in iter_modules(cli.commands.__path__, "cli.commands."):
        import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _supervise(connection)
            connection.close()


def _supervise(connection: socket.socket) -> NoReturn:
    """Forks the command; reports its pid, then its exit code, negative for a signal."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, outputs = b"", []
    while part := socket.recv_fds(connection, _MAX_MESSAGE_BYTES, 2):
        data, fds, _, _ = part
        if not data:
            break
        message += data
        outputs += fds
    order = json.loads(message)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _run(order["arguments"], order["environment"], *outputs)
    connection.sendall(str(pid).encode())
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _run(arguments: list[str], environment: dict[str, str], out: int, err: int) -> NoReturn:
    from cli.main import main

    with open(os.devnull) as nothing:
        for source, target in ((nothing.fileno(), 0), (out, 1), (err, 2)):
            os.dup2(source, target)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["vigil", *arguments]
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001  # printed as the interpreter does
        import traceback

        traceback.print_exc()
        code = 1
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
