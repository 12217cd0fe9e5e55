"""How the tests ask the api, and what they expect of a refusal."""

from typing import Any

import httpx
from fastapi import FastAPI

from services.api.app import build
from shared.runtime.settings import Settings
from tests.support.api.signed_in import SignedIn

MISSION = "Watch the lithium supply of European battery makers"


def client_of(settings: Settings, *, user: str | None = None, **headers: str) -> httpx.AsyncClient:
    """The application itself answers that user, by default its owner; errors come as the answers that people get."""
    return stranger_to(build(settings), auth=SignedIn(settings, user), headers=headers)


def stranger_to(app: FastAPI, *, address: str = "127.0.0.1", **options: Any) -> httpx.AsyncClient:
    """Asks the application without a socket, from that address, and shows nothing."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1", **options)


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
