"""How a process reaches NATS and Postgres: addresses, names, passwords and certificates, from the settings in one way."""

import ssl

from shared.events.credentials import Credentials
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from shared.store.database import Database, role_in, with_login
from shared.store.grants import role_of


def bus_of(settings: Settings, name: str) -> Bus:
    return Bus(settings.nats_url, name=name, credentials=credentials_of(settings, name))


def database_of(settings: Settings, name: str, *, pool_size: int = 5) -> Database:
    return Database(database_url_of(settings, name), name=name, pool_size=pool_size)


def credentials_of(settings: Settings, name: str) -> Credentials:
    """For NATS. Raises OSError or ssl.SSLError where a certificate cannot be read."""
    password = settings.nats_password
    return Credentials(
        user=settings.nats_user or name,
        password=password.get_secret_value() if password else None,
        tls=_tls(settings),
    )


def database_url_of(settings: Settings, name: str) -> str:
    """For any client of Postgres; holds the password, so it is not for showing."""
    role, password = settings.database_user, settings.database_password
    if role is None and password is not None and role_in(settings.database_url) is None:
        role = role_of(name)
    if role is None and password is None:
        return settings.database_url
    return with_login(
        settings.database_url,
        role=role,
        password=password.get_secret_value() if password else None,
    )


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.nats_ca_file is None and settings.nats_cert_file is None:
        return None
    context = ssl.create_default_context(cafile=settings.nats_ca_file)
    if settings.nats_cert_file is not None:
        context.load_cert_chain(settings.nats_cert_file, settings.nats_key_file)
    return context
