"""A billed request: its body and key."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import Request

CallKind = Literal["llm", "embedding", "search", "extract", "research"]


class RefusedError(Exception):
    """The request is answered with an error; `body` is in the format of its interface."""

    def __init__(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and the phase that it belongs to."""

    kind: CallKind
    path: str
    body: Mapping[str, Any]
    phase: str = ""
    """The phase of a model call; empty for other calls."""
    text: str = field(init=False)
    """The body as canonical JSON."""

    def __post_init__(self) -> None:
        text = json.dumps(self.body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "text", text)

    @property
    def request_hash(self) -> str:
        """The hash of path and body; independent of the order of keys."""
        return hashlib.sha256(f"{self.path}\n{self.text}".encode()).hexdigest()


async def read_body(request: Request) -> dict[str, Any] | None:
    """Parse the body as a JSON object; None if it is not one."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def bearer_key(request: Request) -> str:
    """The key of `Authorization: Bearer …`; empty if there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def is_rejected_key(key: str) -> bool:
    """Whether a key is rejected: none, `wrong`, or one that starts with `invalid`, for tests of a rejection."""
    return not key or key == "wrong" or key.startswith("invalid")
