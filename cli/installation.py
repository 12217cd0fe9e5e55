"""Finding the installation that a command speaks to."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cli.errors import BadInputError, NothingRunsError
from cli.local.datadir import DataDirectory, default_data_directory
from cli.local.running import Running

if TYPE_CHECKING:
    from shared.events.credentials import Credentials


def running_on(data: Path | None) -> Running | None:
    """Who runs on that data directory, or on the usual one."""
    return DataDirectory(data or default_data_directory()).running()


def api_url(url: str | None, data: Path | None) -> str:
    """`url` where it was given, else that of the running installation. Raises NothingRunsError."""
    if url:
        return url.rstrip("/")
    return _running(data, "--url or VIGIL_URL").api_url


def nats_url(data: Path | None) -> str:
    """$VIGIL_NATS_URL, else that of the running installation. Raises NothingRunsError."""
    if url := os.environ.get("VIGIL_NATS_URL"):
        return url
    return _running(data, "VIGIL_NATS_URL").nats_url


def nats_credentials() -> "Credentials":
    """Of the environment (VIGIL_NATS_USER, …); without any, those of an installation that asks for none."""
    # Here, so that commands which do without the bus start without all of it.
    from cli.outside import read_settings
    from shared.events.permissions import OPERATOR
    from shared.runtime.credentials import credentials_of

    try:
        return credentials_of(read_settings(), OPERATOR)
    except OSError as error:
        raise BadInputError(f"a certificate for NATS cannot be used: {error}") from error


def nats_url_or_none(data: Path | None) -> str | None:
    """For what goes without the bus too."""
    try:
        return nats_url(data)
    except NothingRunsError:
        return None


def _running(data: Path | None, how: str) -> Running:
    found = running_on(data)
    if found is None:
        directory = data or default_data_directory()
        raise NothingRunsError(
            f"no Vigil is running here (data directory {directory}): start one with `vigil up`, "
            f"or name one that runs elsewhere with {how}"
        )
    return found
