"""The certificates that NATS and PostgreSQL show, as their owner gave them: read, and tried out before any client does."""

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Final

from cli.errors import BadInputError

CA: Final = "ca.pem"
NATS: Final = ("nats.pem", "nats.key")
POSTGRES: Final = ("postgres.pem", "postgres.key")
ALL: Final = (CA, *NATS, *POSTGRES)


def read_certificates(directory: Path) -> dict[str, str]:
    """By the file's name; empty where there is none of them.

    Raises BadInputError where only some are there, or clients that trust the CA would refuse a server.
    """
    missing = [name for name in ALL if not (directory / name).is_file()]
    if len(missing) == len(ALL):
        return {}
    if missing:
        raise BadInputError(
            f"{directory}: {', '.join(missing)} is missing; TLS takes {', '.join(ALL)}"
        )
    for pair in (NATS, POSTGRES):
        _try_out(directory, *pair)
    return {name: (directory / name).read_text() for name in ALL}


def _try_out(directory: Path, certificate: str, key: str) -> None:
    """A handshake without a network, between a server of that name and a client that trusts the CA alone."""
    name = Path(certificate).stem
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        showing = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        showing.load_cert_chain(directory / certificate, directory / key, password=lambda: "")
        trusting = ssl.create_default_context(cafile=directory / CA)
        sides = (
            trusting.wrap_bio(to_client, to_server, server_hostname=name),
            showing.wrap_bio(to_server, to_client, server_side=True),
        )
        for side in (*sides, *sides):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    except OSError as error:  # ssl's own errors too
        raise BadInputError(
            f"{directory / certificate}, with {key} and {CA}, is no use to a server that is called {name!r}: {error}"
        ) from error
