"""The OpenAPI document: FastAPI's, with the problem responses of every operation."""

from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.api.auth.middleware import SESSION_SCHEME
from services.api.http.problem_details import (
    SCHEMA,
    STATUSES_OF_BODIES,
    STATUSES_OF_EVERY_ROUTE,
    Problem,
    problem_response_schema,
)

METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_FASTAPI_SCHEMAS: Final = ("HTTPValidationError", "ValidationError")
"""Schemas that FastAPI declares for validation errors, which are problems here."""


def operation_id(route: APIRoute) -> str:
    """Returns an id such as `agents_create`: the tag and the route's name."""
    topic = str(route.tags[0]) if route.tags else "api"
    return f"{topic}_{route.name}".replace(" ", "_")


def openapi_builder(
    app: FastAPI, session_cookie: Callable[[], str]
) -> Callable[[], dict[str, Any]]:
    """Returns a replacement for `app.openapi`, which builds the document at the first call, when
    all routes exist.

    `session_cookie` returns the cookie's name as far as it is known.
    """
    of_fastapi = app.openapi

    def openapi() -> dict[str, Any]:
        # FastAPI caches its document in `openapi_schema`; that object is completed here.
        document = app.openapi_schema or _with_problems(of_fastapi())
        document["components"]["securitySchemes"][SESSION_SCHEME]["name"] = session_cookie()
        return document

    return openapi


def add_document_route(app: FastAPI, path: str, session_cookie: Callable[[], str]) -> None:
    """Serves the document at `path`.

    It is encoded once, since that takes 5 ms and the path is public.
    """
    encoded = cache(lambda _: JSONResponse(app.openapi()).body)

    async def document(_: Request) -> Response:
        return Response(encoded(session_cookie()), media_type=JSONResponse.media_type)

    app.add_route(path, document, include_in_schema=False)


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in _FASTAPI_SCHEMAS:
        schemas.pop(unused, None)
    template = "#/components/schemas/{model}"
    problem = Problem.model_json_schema(ref_template=template)
    schemas.update(problem.pop("$defs", {}))
    schemas[SCHEMA] = problem
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                _add_problem_responses(operations[method], path)
    return document


def _add_problem_responses(operation: dict[str, Any], path: str) -> None:
    """Adds the common problem responses.

    Responses that the route declares stay, except FastAPI's 422.
    """
    responses = operation["responses"]
    responses.pop(str(int(HTTPStatus.UNPROCESSABLE_ENTITY)), None)
    statuses = [*STATUSES_OF_EVERY_ROUTE]
    if "requestBody" in operation:
        statuses += STATUSES_OF_BODIES
    if "{" in path:
        statuses.append(HTTPStatus.NOT_FOUND)
    for status in statuses:
        responses.setdefault(str(int(status)), problem_response_schema(status))
