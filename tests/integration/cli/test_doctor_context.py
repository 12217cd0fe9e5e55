"""`vigil doctor` compares the stated context of the model with that of its server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli.config.providers import Providers
from cli.doctor import check_model_server, check_named_provider
from cli.findings import Finding, Verdict
from shared.runtime.settings import ModelProvider, Settings
from tests.support.case_files import read_cases
from tests.support.sandbox.server import running_app

CASES = read_cases(__file__)


@asynccontextmanager
async def serving(
    *, listed: dict[str, Any], props: dict[str, Any] | None = None, stated: int | None = None
) -> AsyncIterator[Settings]:
    async def models(_: Request) -> Response:
        return JSONResponse({"data": [{"id": "local", **listed}]})

    async def properties(_: Request) -> Response:
        return JSONResponse(props or {}, 200 if props else 404)

    async def health(_: Request) -> Response:
        return JSONResponse({})

    routes = [Route("/v1/models", models), Route("/props", properties), Route("/health", health)]
    async with running_app(Starlette(routes=routes)) as url:
        yield Settings(
            openai_api_key=SecretStr("any"),
            openai_base_url=f"{url}/v1",
            model="local",
            model_context_tokens=stated,
        )


@pytest.mark.parametrize(("model", "provider", "faults"), CASES["each_provider_is_checked"])
async def test_each_provider_is_checked(model: str, provider: str, faults: dict[str, str]) -> None:
    async with serving(listed={}) as settings:
        url = "http://u:sEcReT@127.0.0.1:1/v1" if provider == "away" else settings.openai_base_url
        assert url is not None
        settings = settings.model_copy(
            update={"model": model, "providers": {provider: ModelProvider(base_url=url)}}
        )
        named = await asyncio.to_thread(check_named_provider, settings, provider)
        findings = [await finding(settings), named]
    bad = {each.name: each.message for each in findings if each.verdict is Verdict.BAD}
    assert bad.keys() == faults.keys()
    assert all(faults[name] in bad[name] for name in faults)
    assert "sEcReT" not in str(findings)


LLAMA = {"default_generation_settings": {"n_ctx": 16_384}}


async def finding(settings: Settings) -> Finding:
    providers = Providers.from_settings(settings, None)
    return await asyncio.to_thread(check_model_server, settings, providers)


@pytest.mark.parametrize(
    ("listed", "props", "stated", "verdict"),
    [
        ({"max_model_len": 16_384}, None, None, Verdict.BAD),
        ({"max_model_len": 16_384}, None, 32_768, Verdict.BAD),
        ({"max_model_len": 16_384}, None, 16_384, Verdict.GOOD),
        ({"max_model_len": 131_072}, None, None, Verdict.GOOD),
        ({}, LLAMA, None, Verdict.BAD),
        ({}, LLAMA, 16_384, Verdict.GOOD),
        ({}, None, None, Verdict.GOOD),
        ({"max_model_len": "long"}, {"default_generation_settings": []}, None, Verdict.GOOD),
    ],
)
async def test_the_context_of_the_server_is_compared(
    listed: dict[str, Any], props: dict[str, Any] | None, stated: int | None, verdict: Verdict
) -> None:
    async with serving(listed=listed, props=props, stated=stated) as settings:
        found = await finding(settings)
    assert found.verdict == verdict
    if verdict is Verdict.BAD:
        assert "VIGIL_MODEL_CONTEXT_TOKENS=16384" in found.fix
