"""How the tests ask the api, and what they expect of a refusal."""

from typing import Any

import httpx
from fastapi import FastAPI

from services.api.app import build
from shared.runtime.settings import Settings

MISSION = "Watch the lithium supply of European battery makers"


def client_of(settings: Settings, **headers: str) -> httpx.AsyncClient:
    """The application itself answers, without a socket; errors come as the answers that people get."""
    return client_to(build(settings), **headers)


def client_to(app: FastAPI, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1/api/v1", headers=headers
    )


async def created(api: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await api.post("/agents", json={"mission": MISSION, **wanted})
    assert answer.status_code == 201, answer.text
    agent: dict[str, Any] = answer.json()
    return agent


def assert_problem(answer: httpx.Response, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == status
    assert all(word in body["detail"] for word in words), body["detail"]
