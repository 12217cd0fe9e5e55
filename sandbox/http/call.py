"""One billed request: what was asked, and what is answered."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import Request

CallKind = Literal["llm", "embedding", "search", "extract", "research"]


class RefusedError(Exception):
    """The request is answered with an error; `body` is in the shape of the interface that was asked."""

    def __init__(
        self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Call:
    """A request as scripts, faults and the meter see it."""

    kind: CallKind
    path: str
    body: Mapping[str, Any]
    phase: str = ""
    """For model calls: what the request offers tells it."""
    text: str = field(init=False)
    """The body as canonical JSON."""

    def __post_init__(self) -> None:
        text = json.dumps(self.body, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        object.__setattr__(self, "text", text)

    @property
    def request_hash(self) -> str:
        """The same for the same request, whatever the order of its keys."""
        return hashlib.sha256(f"{self.path}\n{self.text}".encode()).hexdigest()

    def matches(self, *, path: str = "", phase: str = "", contains: str = "") -> bool:
        """Whether every given condition holds. `contains` is looked for in the request's strings as they were sent."""
        return (
            (not path or self.path.endswith(path))
            and (not phase or phase == self.phase)
            and (not contains or contains in self.text or json.dumps(contains)[1:-1] in self.text)
        )


async def read_body(request: Request) -> dict[str, Any] | None:
    """The JSON object that was sent; None where the body is not one."""
    try:
        body = json.loads(await request.body())
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def bearer_key(request: Request) -> str:
    """The key sent as `Authorization: Bearer …`, empty where there is none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def key_is_refused(key: str) -> bool:
    """Any key will do, except none at all, `wrong`, and what starts with `invalid`: for trying out what refusal does."""
    return not key or key == "wrong" or key.startswith("invalid")
