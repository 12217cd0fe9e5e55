"""What a route may answer besides its own success, for the api's document; each is a problem."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel

MEDIA_TYPE: Final = "application/problem+json"
SCHEMA: Final = "Problem"

OF_EVERY_ROUTE: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
OF_BODIES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_WHEN: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.FORBIDDEN: "Not from here, or not with this credential.",
    HTTPStatus.NOT_FOUND: "There is none, or it is another's.",
    HTTPStatus.CONFLICT: "What is there speaks against it.",
    HTTPStatus.PRECONDITION_FAILED: "It has been changed since it was read.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than this api takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is no JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Something in the request cannot be; `errors` says what.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests; `Retry-After` says when to go on.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Vigil broke over this request.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Vigil cannot answer just now; `Retry-After` says when to ask again.",
}


class Fault(BaseModel):
    """One thing that is wrong with a request, and where in it."""

    where: str
    wrong: str


class Problem(BaseModel):
    """Problem details of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """For a route's `responses`: what it may answer besides what every route may."""
    return {int(status): told(status) for status in statuses}


def told(status: HTTPStatus) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{SCHEMA}"}
    return {
        "description": _WHEN.get(status, status.phrase),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
