"""/control: the levers that tests pull. Served only where the sandbox was started for it."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.endpoint import Levers
from sandbox.http.faults import Fault
from sandbox.http.keys import KeyRule
from sandbox.http.scripts import ScriptedAnswer

Rule = TypeVar("Rule", bound=BaseModel)


def control_routes(levers: Levers) -> list[Route]:
    """Meter, reset, scripts, faults and idempotency keys of one running sandbox."""

    async def meter(request: Request) -> Response:
        wants_detail = request.query_params.get("detail", "") not in {"", "0", "false"}
        counted = levers.meter.described(detail=wants_detail)
        return JSONResponse({**counted, "replayed": levers.keys.replayed})

    async def reset(_: Request) -> Response:
        levers.reset()
        return JSONResponse({"reset": True})

    async def script(request: Request) -> Response:
        return await _take(request, ScriptedAnswer, lambda rules: levers.scripts.add(rules))

    async def faults(request: Request) -> Response:
        return await _take(request, Fault, lambda rules: levers.faults.add(rules))

    async def keys(request: Request) -> Response:
        def obey(rules: list[KeyRule]) -> None:
            levers.keys.heeded = rules[-1].heeded

        return await _take(request, KeyRule, obey)

    async def waiting(_: Request) -> Response:
        return JSONResponse({"faults": levers.faults.described(), "scripts": len(levers.scripts)})

    return [
        Route("/control", waiting, methods=["GET"]),
        Route("/control/meter", meter, methods=["GET"]),
        Route("/control/reset", reset, methods=["POST"]),
        Route("/control/script", script, methods=["POST"]),
        Route("/control/faults", faults, methods=["POST"]),
        Route("/control/keys", keys, methods=["POST"]),
    ]


async def _take(request: Request, rule: type[Rule], add: Callable[[list[Rule]], None]) -> Response:
    """One rule or a list of them; 400 with what is wrong, and then none is taken."""
    body = await request.body()
    many = body.lstrip().startswith(b"[")
    try:
        rules = (
            TypeAdapter(list[rule]).validate_json(body)  # type: ignore[valid-type]  # a type known at run time
            if many
            else [rule.model_validate_json(body)]
        )
    except ValidationError as error:
        return JSONResponse({"error": error.errors(include_url=False, include_context=False)}, 400)
    add(rules)
    return JSONResponse({"added": len(rules)})
