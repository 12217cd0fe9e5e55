"""Every route there is, as the OpenAPI document has it: whoever adds one has it attacked."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from services.api.app import build
from shared.runtime.settings import Settings

SAFE: Final = ("GET", "HEAD")
OPEN: Final = {
    ("GET", "/health/live"): "a supervisor asks before anything works; says that the process lives",
    ("GET", "/health/ready"): "a supervisor asks; says what is waited for",
    ("GET", "/api/v1/about"): "says which version answers, and nothing else",
    ("POST", "/api/v1/sign-in"): "who asks has nothing to show yet; answers the same to everybody",
    ("GET", "/api/v1/sign-in/link"): "the link is what is shown; the page tells nothing of it",
    ("POST", "/api/v1/sign-in/link"): "the link is what is shown",
}
"""What is answered to strangers, and why. openapi.json, which tells of itself nowhere, is open too."""
OPERATED: Final = ("/api/v1/users", "/api/v1/budget", "/metrics")
"""Routes that begin so are for operators alone: others are told so, whoever they ask for."""
ENDLESS: Final = ("/api/v1/events", "/api/v1/agents/{agent}/events")
"""Whoever is let in is answered without end: read only over a socket, see test_event_stream.py."""
WORDS: Final = frozenset({"phase"})
"""Parameters that mean the same to everybody, so that none is anybody's own."""
READ_PAGE: Final = "https://news.example.org/made-by-attack"
"""That every agent has read."""
BODIES: Final[dict[tuple[str, str], Any]] = {
    ("POST", "/api/v1/agents"): {"mission": "Watch the lithium supply of Europe"},
    ("POST", "/api/v1/agents/{agent}/retractions"): {
        "source": READ_PAGE,
        "reason": "made by attack",
    },
    ("POST", "/api/v1/agents/{agent}/merges"): {
        "kept": "{kept}",
        "merged": "{merged}",
        "reason": "made by attack",
    },
    ("POST", "/api/v1/destinations"): {
        "kind": "webhook",
        "address": "https://hooks.example.org/made-by-attack",
    },
    ("PATCH", "/api/v1/destinations/{destination_id}"): {"active": True},
    ("POST", "/api/v1/users"): {"name": "made-by-attack"},
    ("POST", "/api/v1/tokens"): {"name": "made-by-attack", "scopes": ["read"]},
}
"""For routes whose body cannot be made up from its schema."""


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    body: Any
    """One that the route understands; None where it takes none."""
    questions: tuple[str, ...] = ()
    """The parameters in its query that may name something: words and ids, no numbers, dates or choices."""
    headers: tuple[str, ...] = ()

    @property
    def is_safe(self) -> bool:
        return self.method in SAFE

    @property
    def is_operated(self) -> bool:
        return self.path.startswith(OPERATED)

    @property
    def parameters(self) -> list[str]:
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    def url(self, values: dict[str, str]) -> str:
        """With its parameters filled in. Fails where nobody has taught the attacks what one of them is."""
        unknown = set(self.parameters) - set(values)
        assert not unknown, f"{self}: say in tests/support/attacks/world.py what {unknown} is"
        return self.path.format_map(values)

    def says(self, values: dict[str, str]) -> Any:
        """Its body, with the values that it names filled in."""
        if not isinstance(self.body, dict):
            return self.body
        named = {f"{{{name}}}": value for name, value in values.items()}
        return {
            key: named.get(said, said) if isinstance(said, str) else said
            for key, said in self.body.items()
        }

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@cache
def document() -> dict[str, Any]:
    return build(Settings()).openapi()


def routes() -> list[Route]:
    found = document()
    return [
        Route(
            method.upper(),
            path,
            BODIES.get((method.upper(), path), _body(operation, found)),
            tuple(_asked(operation, "query", found)),
            tuple(_asked(operation, "header", found)),
        )
        for path, operations in found["paths"].items()
        for method, operation in operations.items()
    ]


def guarded() -> list[Route]:
    """All but those that are open."""
    return [route for route in routes() if (route.method, route.path) not in OPEN]


def _asked(operation: dict[str, Any], where: str, found: dict[str, Any]) -> Iterator[str]:
    for parameter in operation.get("parameters", []):
        if parameter["in"] == where and _names_something(parameter["schema"], found):
            yield parameter["name"]


def _names_something(schema: dict[str, Any], found: dict[str, Any]) -> bool:
    if "$ref" in schema:
        return _names_something(_referred(schema, found), found)
    kinds = [schema, *schema.get("anyOf", []), schema.get("items", {})]
    return any(
        kind.get("type") == "string" and kind.get("format", "uuid") == "uuid" and "enum" not in kind
        for kind in kinds
    )


def _referred(schema: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    schemas: dict[str, dict[str, Any]] = found["components"]["schemas"]
    return schemas[schema["$ref"].rpartition("/")[2]]


def _body(operation: dict[str, Any], found: dict[str, Any]) -> Any:
    content = operation.get("requestBody", {}).get("content", {})
    return _example(content["application/json"]["schema"], found) if content else None


def _example(schema: dict[str, Any], found: dict[str, Any]) -> Any:
    """The least that is of that schema."""
    if "$ref" in schema:
        return _example(_referred(schema, found), found)
    for chosen in ("anyOf", "oneOf", "allOf"):
        if chosen in schema:
            return _example(schema[chosen][0], found)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            required = schema.get("required", [])
            return {name: _example(schema["properties"][name], found) for name in required}
        case "array":
            return [_example(schema["items"], found)] * schema.get("minItems", 0)
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
        case _:
            return "x" * schema.get("minLength", 1)
