"""Why a server did not answer, in words for users."""

import errno
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import httpx

_OF_TYPE: Final = {
    httpx.ConnectTimeout: "it cannot be reached",
    httpx.ReadTimeout: "it did not answer in time",
    httpx.WriteTimeout: "sending the request took too long",
    httpx.PoolTimeout: "too many requests were sent at the same time",
    httpx.ReadError: "the connection was lost",
    httpx.WriteError: "the connection was lost",
    httpx.CloseError: "the connection was lost",
    httpx.RemoteProtocolError: "it closed the connection or does not use HTTP",
    httpx.UnsupportedProtocol: "its URL must begin with http:// or https://",
    httpx.InvalidURL: "its URL is invalid",
}
_OF_ERRNO: Final = {
    errno.ECONNREFUSED: "connection refused, because nothing is listening there",
    errno.EHOSTUNREACH: "its host cannot be reached",
    errno.ENETUNREACH: "its network cannot be reached",
}


def reason(error: Exception) -> str:
    """Why there was no answer. `error` is one of httpx."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "it does not use TLS; if it uses plain HTTP, write http:// instead of https://"
        if isinstance(cause, socket.gaierror):
            return "its host name is unknown"
        if isinstance(cause, OSError) and cause.errno in _OF_ERRNO:
            return _OF_ERRNO[cause.errno]
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error))
    return _OF_TYPE.get(type(error)) or text or "it cannot be reached"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what caused it. Several attempts to connect are one group of errors."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        for each in getattr(cause, "exceptions", ()):
            yield from _causes(each)
        cause = cause.__cause__ or cause.__context__
