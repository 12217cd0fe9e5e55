"""Finding the installation that a command speaks to."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from cli.address import Address
from cli.api import Api, given_token
from cli.errors import BadInputError, NothingRunsError
from cli.local.datadir import DataDirectory, default_data_directory
from cli.local.running import Running
from cli.profiles import DEFAULT, Profiles

if TYPE_CHECKING:
    from shared.events.credentials import Credentials


def running_on(data: Path | None) -> Running | None:
    """Who runs on that data directory, or on the usual one."""
    return data_directory(data).running()


def api_url(address: Address | None, data: Path | None) -> Api:
    """As it is named; else the installation that runs on the data directory, and else the one that was logged in at.

    Raises NothingRunsError where there is none of these, and BadInputError where what was given cannot be used.
    """
    named = address or Address()
    token = given_token(named)
    if named.profile:
        saved = Profiles.read().named(named.profile)
        if named.url and named.url.rstrip("/") != saved.url:
            raise BadInputError(
                f"--url {named.url} and --profile {named.profile}, which is at {saved.url}, name two installations: "
                "leave one out (VIGIL_URL and VIGIL_PROFILE count as well)"
            )
        return Api(saved.url, token or saved.token)
    if named.url:
        return _at(named.url.rstrip("/"), token, data)
    if (running := running_on(data)) is not None:
        return Api(running.api_url, token or data_directory(data).token())
    if (usual := Profiles.read().profiles.get(DEFAULT)) is not None:
        return Api(usual.url, token or usual.token)
    return Api(_running(data, "--url, --profile or VIGIL_URL").api_url)


def api_or_none(address: Address | None, data: Path | None) -> Api | None:
    """For what goes without an api too. Raises BadInputError where what was given cannot be used."""
    try:
        return api_url(address, data)
    except NothingRunsError:
        return None


def data_directory(data: Path | None) -> DataDirectory:
    """That one, or the usual one."""
    return DataDirectory(data or default_data_directory())


def _at(url: str, token: str | None, data: Path | None) -> Api:
    """What is known for one installation is shown to no other."""
    if token is not None:
        return Api(url, token)
    if (saved := Profiles.read().at(url)) is not None:
        return Api(url, saved.token)
    running = running_on(data)
    is_here = running is not None and running.api_url == url
    return Api(url, data_directory(data).token() if is_here else None)


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
