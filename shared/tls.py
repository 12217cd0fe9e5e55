"""The certificates that HTTPS clients trust, loaded once per process."""

import os
import ssl
from functools import cache


def tls_context() -> ssl.SSLContext:
    """Verifies servers as httpx does by default, also with SSL_CERT_FILE and SSL_CERT_DIR.

    Loading the certificates takes 25 ms, which every client of its own would take again.
    """
    return _load(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _load(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    # Loaded on demand: most commands of the CLI send no request.
    import httpx

    return httpx.create_ssl_context()
