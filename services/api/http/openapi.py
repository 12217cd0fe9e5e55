"""The OpenAPI document: FastAPI's, with the problems that any operation may answer."""

from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from services.api.auth.middleware import SESSION_SCHEME
from services.api.http.problem_details import OF_BODIES, OF_EVERY_ROUTE, SCHEMA, Problem, told

METHODS: Final = ("get", "put", "post", "delete", "patch", "head", "options")
_OF_FASTAPI: Final = ("HTTPValidationError", "ValidationError")
"""Shapes that FastAPI declares for the errors that are problems here."""


def operation_id(route: APIRoute) -> str:
    """`agents_create`: the topic and the function."""
    topic = str(route.tags[0]) if route.tags else "api"
    return f"{topic}_{route.name}".replace(" ", "_")


def documented(app: FastAPI, session_cookie: Callable[[], str]) -> Callable[[], dict[str, Any]]:
    """For `app.openapi`: made when it is asked for first, as all routes are there by then.

    `session_cookie` returns the cookie's name as far as it is known by now.
    """
    of_fastapi = app.openapi

    def openapi() -> dict[str, Any]:
        # FastAPI keeps what it made in `openapi_schema`, and there it is completed.
        document = app.openapi_schema or _with_problems(of_fastapi())
        document["components"]["securitySchemes"][SESSION_SCHEME]["name"] = session_cookie()
        return document

    return openapi


def put_document_on(app: FastAPI, path: str, session_cookie: Callable[[], str]) -> None:
    """Answers with the document at `path`. It is encoded once: anybody may ask for it, and that takes 5 ms each time."""
    encoded = cache(lambda _: JSONResponse(app.openapi()).body)

    async def document(_: Request) -> Response:
        return Response(encoded(session_cookie()), media_type=JSONResponse.media_type)

    app.add_route(path, document, include_in_schema=False)


def _with_problems(document: dict[str, Any]) -> dict[str, Any]:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in _OF_FASTAPI:
        schemas.pop(unused, None)
    template = "#/components/schemas/{model}"
    problem = Problem.model_json_schema(ref_template=template)
    schemas.update(problem.pop("$defs", {}))
    schemas[SCHEMA] = problem
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                _complete(operations[method], path)
    return document


def _complete(operation: dict[str, Any], path: str) -> None:
    """What the route itself declares stays, but for FastAPI's own 422."""
    responses = operation["responses"]
    responses.pop(str(int(HTTPStatus.UNPROCESSABLE_ENTITY)), None)
    statuses = [*OF_EVERY_ROUTE]
    if "requestBody" in operation:
        statuses += OF_BODIES
    if "{" in path:
        statuses.append(HTTPStatus.NOT_FOUND)
    for status in statuses:
        responses.setdefault(str(int(status)), told(status))


def length_told(shortest: int, longest: int) -> Any:
    """For the document alone, in characters: what is refused is said in words by the validator, which trims first."""
    return Field(json_schema_extra={"minLength": shortest, "maxLength": longest})
