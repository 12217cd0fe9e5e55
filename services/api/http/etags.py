"""ETags: an answer that has not changed is not sent again, and nobody overwrites what they have not seen.

They are strong: the same ETag means the same bytes. The ETag of what can be changed begins with its version, and
`If-Match` asks for that version alone: an agent's iterations go on all the time, and do not stand in the way of who
changes its name.
"""

from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Header, Request
from pydantic import BaseModel
from starlette.responses import Response

from services.api.http.problem_details import ProblemError

UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {
    int(HTTPStatus.NOT_MODIFIED): {"description": "It is still what `If-None-Match` names."}
}
"""For the `responses` of routes that answer reads by `tagged`."""
_HASH_CHARACTERS: Final = 32
_BETWEEN: Final = "."

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1000,
        description="ETag of what was read: if it has been changed since, it is not changed now",
    ),
]


def tagged(request: Request, view: BaseModel, *, version: str = "") -> Response:
    """The view as JSON with its ETag, or 304 without it where the caller has it already."""
    body = view.model_dump_json().encode()
    content = sha256(body).hexdigest()[:_HASH_CHARACTERS]
    tag = f'"{version}{_BETWEEN}{content}"' if version else f'"{content}"'
    # A cache may keep it, but asks each time; and it is this caller's alone.
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    reads = request.method in ("GET", "HEAD")
    if reads and _names(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def refuse_if_changed(if_match: str | None, version: str) -> None:
    """Raises ProblemError (412) unless one of the ETags is of this version; without any, nothing is asked."""
    if if_match is None or if_match.strip() == "*":
        return
    if version not in {_version(each) for each in _listed(if_match)}:
        raise ProblemError(
            HTTPStatus.PRECONDITION_FAILED,
            "changed-since",
            "It has been changed since you read it: read it again, and change what is there now.",
        )


def _version(tag: str) -> str:
    """Of a weak ETag, which is never the same as anything here: none."""
    version, between, _ = tag.strip('"').partition(_BETWEEN)
    return version if between and not tag.startswith("W/") else ""


def _names(header: str, tag: str) -> bool:
    """Weakly compared, as RFC 9110 has it for If-None-Match."""
    return header.strip() == "*" or tag in {each.removeprefix("W/") for each in _listed(header)}


def _listed(header: str) -> list[str]:
    return [each.strip() for each in header.split(",")]
