"""Finding the installation that a command speaks to."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.client.target import Address, Api, given_token
from cli.config.profiles import DEFAULT, Profiles
from cli.errors import BadInputError, NothingRunsError
from cli.local.data_directory import DataDirectory, Running, default_data_directory
from cli.local.errors import DataDirectoryError

if TYPE_CHECKING:
    from shared.events.credentials import Credentials
    from shared.runtime.settings import Settings

DATABASE_URL: Final = "VIGIL_DATABASE_URL"
NATS_URL: Final = "VIGIL_NATS_URL"


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
    with suppress(DataDirectoryError):  # another user's; what is named by its URL does not need it
        running = running_on(data)
        if running is not None and running.api_url == url:
            token = data_directory(data).token()
    return Api(url, token)


def engine_settings(name: str, data: Path | None) -> "Settings":
    """By which a command reaches PostgreSQL and NATS with the login of the service `name`.

    What VIGIL_DATABASE_URL and VIGIL_NATS_URL name is reached as the environment says; else it is what runs on the data
    directory, with the passwords kept there. Raises BadInputError where those cannot be read, and DataDirectoryError
    where the directory is closed to this user.
    """
    # Here, so that commands which do without the engines start without all that they need.
    from pydantic import SecretStr

    from cli.cluster.keys import Keys
    from cli.config.providers import read_settings

    settings = read_settings()
    named = {url for url in (DATABASE_URL, NATS_URL) if os.environ.get(url)}
    if named == {DATABASE_URL, NATS_URL} or (running := running_on(data)) is None:
        return settings
    directory = data_directory(data)
    login = Keys(directory.keys, private=True).login_of(name)
    found: dict[str, object] = {}
    if not named:
        token = directory.token()
        found["keys_dir"], found["owner_token"] = directory.keys, token and SecretStr(token)
    if DATABASE_URL not in named:
        found["public_url"] = settings.public_url or running.api_url
        found["database_url"] = running.database_url
        found["database_user"] = login.get("database_user")
        password = login.get("database_password")
        found["database_password"] = password and SecretStr(password)
    if NATS_URL not in named:
        found["nats_url"] = running.nats_url
        found["nats_user"], found["nats_password"] = name, SecretStr(login["nats_password"])
    return settings.model_copy(update=found)


def nats_of(data: Path | None) -> "tuple[str, Credentials]":
    """Where NATS is, and the operator's credentials there.

    Raises NothingRunsError where $VIGIL_NATS_URL names none and no installation runs.
    """
    from shared.events.permissions import OPERATOR
    from shared.runtime.credentials import credentials_of

    if not os.environ.get(NATS_URL):
        _running(data, NATS_URL)
    settings = engine_settings(OPERATOR, data)
    try:
        return settings.nats_url, credentials_of(settings, OPERATOR)
    except OSError as error:
        raise BadInputError(f"a certificate for NATS cannot be used: {error}") from error


def nats_or_none(data: Path | None) -> "tuple[str, Credentials] | None":
    """For what goes without the bus too."""
    try:
        return nats_of(data)
    except (NothingRunsError, DataDirectoryError):
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
