"""HTTP clients of the API, and an assertion for problem responses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI

from services.api.app import build
from services.api.auth.middleware import cookie_name
from shared.accounts import credentials
from shared.database.engine import Database
from shared.runtime.settings import Settings
from tests.support.api.signed_in import SignedIn

MISSION = "Watch the lithium supply of European battery makers"


def create_client(
    settings: Settings, *, user: str | None = None, **headers: str
) -> httpx.AsyncClient:
    """A client of the application in this process, signed in as that user or as the owner.

    Errors arrive as responses, not as exceptions.
    """
    return create_anonymous_client(build(settings), auth=SignedIn(settings, user), headers=headers)


def create_anonymous_client(
    app: FastAPI, *, address: str = "127.0.0.1", **options: Any
) -> httpx.AsyncClient:
    """A client of the application in this process, from that address, without a credential."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1", **options)


@asynccontextmanager
async def signed_in_browser(
    settings: Settings, database: Database
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this process, with a session of the owner as browsers have one."""
    async with database.transaction() as session:
        owner_id = await credentials.ensure_owner(session, settings.owner)
        _, link = await credentials.create_link(session, owner_id)
        secret = await credentials.open_session(session, link, "test")
    assert secret is not None, "the link was not valid"
    cookies = {cookie_name(settings, owner_id): secret}
    transport = httpx.ASGITransport(build(settings))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1", cookies=cookies
    ) as browser:
        yield browser


async def create_agent(api: httpx.AsyncClient, **params: Any) -> dict[str, Any]:
    response = await api.post("/agents", json={"mission": MISSION, **params})
    assert response.status_code == 201, response.text
    agent: dict[str, Any] = response.json()
    return agent


def assert_problem(response: httpx.Response, status: int, *fragments: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert all(fragment in body["detail"] for fragment in fragments), body["detail"]
