"""All routes of the OpenAPI document; a new route is attacked automatically."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from services.api.app import build
from shared.runtime.settings import Settings

SAFE: Final = ("GET", "HEAD")
OPEN: Final = {
    ("GET", "/health/live"): "liveness probe, before anything else works",
    ("GET", "/health/ready"): "readiness probe; names the missing dependencies",
    ("GET", "/api/v1/about"): "returns only the version",
    ("POST", "/api/v1/sign-in"): "the client has no credential yet; the same answer for every name",
    ("GET", "/api/v1/sign-in/link"): "the link is the credential; the page does not show it",
    ("POST", "/api/v1/sign-in/link"): "the link is the credential",
}
"""Routes open without a credential, and why. openapi.json, which is not in the document, is open too."""
OPERATOR_ONLY: Final = (
    "/api/v1/users",
    "/api/v1/budget",
    "/api/v1/services",
    "/api/v1/retention",
    "/metrics",
)
"""Path prefixes of routes for operators only: other users are refused, whatever they request."""
STREAMS: Final = ("/api/v1/events", "/api/v1/agents/{agent}/events")
"""Endless responses: read only over a socket, see test_event_stream.py."""
SHARED_PARAMETERS: Final = frozenset({"phase"})
"""Parameters whose values are the same for all users, so they are not private."""
READ_PAGE: Final = "https://news.example.org/made-by-attack"
"""A page that every agent has read."""
BODIES: Final[dict[tuple[str, str], Any]] = {
    ("POST", "/api/v1/agents"): {"mission": "Watch the lithium supply of Europe"},
    ("POST", "/api/v1/agents/{agent}/retractions"): {
        "source": READ_PAGE,
        "reason": "made by attack",
    },
    ("POST", "/api/v1/agents/{agent}/retractions/preview"): {"source": READ_PAGE},
    ("POST", "/api/v1/agents/{agent}/merges"): {
        "kept": "{kept}",
        "merged": "{merged}",
        "reason": "made by attack",
    },
    ("POST", "/api/v1/agents/{agent}/splits"): {
        "node": "{split_node}",
        "evidence": ["{split_evidence}"],
        "qualifier": "made by attack",
        "reason": "made by attack",
    },
    ("POST", "/api/v1/inbox/{item_id}/snooze"): {
        "until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    },
    ("POST", "/api/v1/agents/{agent}/distinct-pairs"): {"one": "{kept}", "other": "{merged}"},
    ("POST", "/api/v1/destinations"): {
        "kind": "webhook",
        "address": "https://hooks.example.org/made-by-attack",
    },
    ("PATCH", "/api/v1/destinations/{destination_id}"): {"active": True},
    ("POST", "/api/v1/users"): {"name": "made-by-attack"},
    ("POST", "/api/v1/tokens"): {"name": "made-by-attack", "scopes": ["read"]},
}
"""Bodies of routes for which the schema is not enough to generate one."""


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    body: Any
    """A valid body; None if the route takes none."""
    query_parameters: tuple[str, ...] = ()
    """Query parameters that may contain a name: texts and ids, not numbers, dates or enums."""
    headers: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE

    @property
    def is_operator_only(self) -> bool:
        return self.path.startswith(OPERATOR_ONLY)

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def url(self, values: dict[str, str]) -> str:
        """Return the path with its parameters filled in. Fails if the attacks do not know a parameter."""
        unknown = set(self.parameters) - set(values)
        assert not unknown, f"{self}: define {unknown} in tests/support/attacks/owned_resources.py"
        return self.path.format_map(values)

    def body_with(self, values: dict[str, str]) -> Any:
        """Return the body with its placeholders filled in."""
        if not isinstance(self.body, dict):
            return self.body
        replacements = {f"{{{name}}}": value for name, value in values.items()}

        def fill(content: Any) -> Any:
            if isinstance(content, list):
                return [fill(each) for each in content]
            return replacements.get(content, content) if isinstance(content, str) else content

        return {key: fill(content) for key, content in self.body.items()}

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@cache
def openapi_document() -> dict[str, Any]:
    return build(Settings()).openapi()


@cache
def all_routes() -> list[Route]:
    document = openapi_document()
    return [
        Route(
            method.upper(),
            path,
            BODIES.get((method.upper(), path), _example_body(operation, document)),
            tuple(_parameter_names(operation, "query", document)),
            tuple(_parameter_names(operation, "header", document)),
        )
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def guarded_routes() -> list[Route]:
    """Return all routes except the open ones."""
    return [route for route in all_routes() if (route.method, route.path) not in OPEN]


def _parameter_names(
    operation: dict[str, Any], location: str, document: dict[str, Any]
) -> Iterator[str]:
    for parameter in operation.get("parameters", []):
        if parameter["in"] == location and _may_be_name(parameter["schema"], document):
            yield parameter["name"]


def _may_be_name(schema: dict[str, Any], document: dict[str, Any]) -> bool:
    if "$ref" in schema:
        return _may_be_name(_resolve_ref(schema, document), document)
    kinds = [schema, *schema.get("anyOf", []), schema.get("items", {})]
    return any(
        kind.get("type") == "string" and kind.get("format", "uuid") == "uuid" and "enum" not in kind
        for kind in kinds
    )


def _resolve_ref(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, dict[str, Any]] = document["components"]["schemas"]
    return schemas[schema["$ref"].rpartition("/")[2]]


def _example_body(operation: dict[str, Any], document: dict[str, Any]) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    return _example(content["application/json"]["schema"], document) if content else None


def _example(schema: dict[str, Any], document: dict[str, Any]) -> Any:
    """Return a minimal instance of the schema."""
    if "$ref" in schema:
        return _example(_resolve_ref(schema, document), document)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return _example(schema[keyword][0], document)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            required = schema.get("required", [])
            return {name: _example(schema["properties"][name], document) for name in required}
        case "array":
            return [_example(schema["items"], document)] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return "x" * schema.get("minLength", 1)
