"""Who a process is for NATS, from the settings. Apart from the bus, so that a command need not load all of that."""

import ssl
from urllib.parse import urlsplit

from shared.events.credentials import Credentials
from shared.runtime.settings import Settings


def credentials_of(settings: Settings, name: str) -> Credentials:
    """For NATS. Raises OSError or ssl.SSLError where a certificate cannot be read."""
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
