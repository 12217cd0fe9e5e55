"""Asking processes whether they are ready, over HTTP."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Final

from cli.local.ports import LOOPBACK

ANSWER_SECONDS: Final = 2.0
NOT_LISTENING: Final = "it does not listen yet"


def unreadiness(port: int, path: str = "/health/ready") -> str | None:
    """Why whoever listens on that port is not ready, in words, or None where it is."""
    connection = HTTPConnection(LOOPBACK, port, timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        if answer.status == 200:
            return None
        return _reason(answer.read()) or f"it answers {answer.status}"
    except (ConnectionRefusedError, ConnectionResetError):
        return NOT_LISTENING
    except (OSError, HTTPException) as error:
        return f"it does not answer: {error}"
    finally:
        connection.close()


def _reason(body: bytes) -> str | None:
    try:
        told = json.loads(body)
    except ValueError:
        return None
    return told.get("reason") or told.get("status") if isinstance(told, dict) else None
