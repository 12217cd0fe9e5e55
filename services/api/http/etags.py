"""ETags: conditional reads with If-None-Match, and conditional changes with If-Match.

ETags are strong: the same ETag means the same bytes. The ETag of a resource that can be changed
begins with its version, and `If-Match` compares the version alone. So the iterations of an agent,
which change its representation all the time, do not block a change of its name.
"""

from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import Header, Request
from pydantic import BaseModel
from starlette.responses import Response

from services.api.http.problem_details import ProblemError

UNCHANGED: Final[dict[int | str, dict[str, Any]]] = {
    int(HTTPStatus.NOT_MODIFIED): {"description": "Unchanged since the version in `If-None-Match`."}
}
"""For the `responses` of routes that answer with `etag_response`."""
_HASH_CHARACTERS: Final = 32
_SEPARATOR: Final = "."

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        max_length=1000,
        description="ETag of the version that was read; the change is refused if the resource has changed since then",
    ),
]


def etag_response(request: Request, view: BaseModel, *, version: str = "") -> Response:
    """Returns the view as JSON with its ETag, or 304 where the client has it already."""
    body = view.model_dump_json().encode()
    content = sha256(body).hexdigest()[:_HASH_CHARACTERS]
    tag = f'"{version}{_SEPARATOR}{content}"' if version else f'"{content}"'
    # Caches may store it for this user only, and must revalidate it.
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    reads = request.method in ("GET", "HEAD")
    if reads and _matches_any(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def refuse_if_changed(if_match: str | None, version: str) -> None:
    """Raises ProblemError (412) unless one of the ETags has this version.

    Without ETags it passes.
    """
    if if_match is None or if_match.strip() == "*":
        return
    if version not in {_version(item) for item in _split_etags(if_match)}:
        raise ProblemError(
            HTTPStatus.PRECONDITION_FAILED,
            "changed-since",
            "It was changed after you read it: read it again, then change the current version.",
        )


def _version(tag: str) -> str:
    """Returns the version in an ETag; None for a weak one, which never matches."""
    version, between, _ = tag.strip('"').partition(_SEPARATOR)
    return version if between and not tag.startswith("W/") else ""


def _matches_any(header: str, tag: str) -> bool:
    """Compares weakly, as RFC 9110 requires for If-None-Match."""
    return header.strip() == "*" or tag in {
        item.removeprefix("W/") for item in _split_etags(header)
    }


def _split_etags(header: str) -> list[str]:
    return [item.strip() for item in header.split(",")]
