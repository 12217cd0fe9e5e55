"""Credentials of a process for NATS and PostgreSQL. Separate from the bus, so that commands load less."""

import ssl
from urllib.parse import urlsplit

from shared.database.engine import role_in_url, with_login
from shared.database.grants import role_name
from shared.events.credentials import Credentials
from shared.runtime.settings import Settings


def build_nats_credentials(settings: Settings, name: str) -> Credentials:
    """NATS credentials. Raises OSError or ssl.SSLError if a certificate cannot be read."""
    password = settings.nats_password
    first = urlsplit(settings.nats_url).scheme == "tls"
    return Credentials(
        user=settings.nats_user or name,
        password=password.get_secret_value() if password else None,
        tls=_tls(settings) if first or settings.nats_ca_file or settings.nats_cert_file else None,
        tls_first=first,
    )


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.nats_ca_file)
    if settings.nats_cert_file is not None:
        context.load_cert_chain(settings.nats_cert_file, settings.nats_key_file)
    return context


def build_database_url(settings: Settings, name: str) -> str:
    """For any PostgreSQL client. Contains the password: do not log it."""
    role, password = settings.database_user, settings.database_password
    if role is None and password is not None and role_in_url(settings.database_url) is None:
        role = role_name(name)
    if role is None and password is None:
        return settings.database_url
    return with_login(
        settings.database_url,
        role=role,
        password=password.get_secret_value() if password else None,
    )
