"""Finds the installation a command talks to: its API, its database and its NATS server."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.client.target import Address, Api, read_token
from cli.config.profiles import DEFAULT, Profiles
from cli.errors import BadInputError, NothingRunsError
from cli.local.data_directory import DataDirectory, Running, default_data_directory
from cli.local.errors import DataDirectoryError

if TYPE_CHECKING:
    from shared.runtime.settings import Settings

DATABASE_URL: Final = "VIGIL_DATABASE_URL"
NATS_URL: Final = "VIGIL_NATS_URL"


def running_on(data: Path | None) -> Running | None:
    """The installation that runs on that data directory, or on the default one."""
    return data_directory(data).running()


def api_url(address: Address, data: Path | None) -> Api:
    """The API that is named; else of the installation that uses the data directory, else of the default profile.

    Raises NothingRunsError if there is none of these, and BadInputError if the options contradict each other.
    """
    token = read_token(address)
    if address.profile:
        profile = Profiles.read().named(address.profile)
        if address.url and address.url.rstrip("/") != profile.url:
            raise BadInputError(
                f"--url {address.url} and --profile {address.profile}, which is at {profile.url}, name different "
                "installations: remove one (VIGIL_URL and VIGIL_PROFILE count too)"
            )
        return Api(profile.url, token or profile.token)
    if address.url:
        return _at(address.url.rstrip("/"), token, data)
    if (running := running_on(data)) is not None:
        return Api(running.api_url, token or data_directory(data).token())
    if (usual := Profiles.read().profiles.get(DEFAULT)) is not None:
        return Api(usual.url, token or usual.token)
    return Api(_running(data, "--url, --profile or VIGIL_URL").api_url)


def api_or_none(address: Address, data: Path | None) -> Api | None:
    """The API, or None if nothing runs. Raises BadInputError as `api_url` does."""
    try:
        return api_url(address, data)
    except NothingRunsError:
        return None


def data_directory(data: Path | None) -> DataDirectory:
    """The data directory, by default the one in the home directory."""
    return DataDirectory(data or default_data_directory())


def _at(url: str, token: str | None, data: Path | None) -> Api:
    """The API at `url` with a token. A saved token is only sent to the installation it was saved for."""
    if token is not None:
        return Api(url, token)
    if (profile := Profiles.read().at(url)) is not None:
        return Api(url, profile.token)
    with suppress(
        DataDirectoryError
    ):  # it belongs to another user; an API named by its URL does not need it
        running = running_on(data)
        if running is not None and running.api_url == url:
            token = data_directory(data).token()
    return Api(url, token)


def engine_settings(name: str, data: Path | None) -> "Settings":
    """Settings to connect to PostgreSQL and NATS with the login of the service `name`.

    Engines named by VIGIL_DATABASE_URL and VIGIL_NATS_URL are used as the environment says; otherwise those that run on
    the data directory, with the passwords stored there. Raises BadInputError if those cannot be read, and
    DataDirectoryError if this user has no access to the directory.
    """
    # Imported here, because commands that need no engine should not load it.
    from pydantic import SecretStr

    from cli.cluster.keys import Keys
    from cli.config.providers import read_settings

    settings = read_settings()
    configured = {url for url in (DATABASE_URL, NATS_URL) if os.environ.get(url)}
    if configured == {DATABASE_URL, NATS_URL} or (running := running_on(data)) is None:
        return settings
    directory = data_directory(data)
    login = Keys(directory.keys, private=True).login_of(name)
    changes: dict[str, object] = {}
    if not configured:
        token = directory.token()
        changes["keys_dir"], changes["owner_token"] = directory.keys, token and SecretStr(token)
    if DATABASE_URL not in configured:
        changes["public_url"] = settings.public_url or running.api_url
        changes["database_url"] = running.database_url
        changes["database_user"] = login.get("database_user")
        password = login.get("database_password")
        changes["database_password"] = password and SecretStr(password)
    if NATS_URL not in configured:
        changes["nats_url"] = running.nats_url
        changes["nats_user"], changes["nats_password"] = name, SecretStr(login["nats_password"])
    return settings.model_copy(update=changes)


def _running(data: Path | None, how: str) -> Running:
    running = running_on(data)
    if running is None:
        directory = data or default_data_directory()
        raise NothingRunsError(
            f"no Vigil is running here (data directory {directory}): start one with `vigil up`, or name one "
            f"elsewhere with {how}"
        )
    return running
