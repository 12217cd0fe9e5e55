"""Hosts and origins that the API accepts."""

from collections.abc import Sequence

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from services.api.http.guards import HostGuard
from shared.runtime.settings import Settings
from tests.support.case_files import read_cases

CASES = read_cases(__file__)

IN_COMPOSE = ("0.0.0.0", "api", "192.168.1.5", "Vigil.example", "[fe80::1]")


async def send_request(
    host: str,
    hosts: Sequence[str],
    public_url: str = "http://127.0.0.1:8080",
    **headers: str,
) -> httpx.Response:
    route = Route("/", lambda _: PlainTextResponse("inside"))
    guard = Middleware(HostGuard, hosts=hosts, public_url=public_url)
    app = Starlette(routes=[route], middleware=[guard])
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        return await client.get("/", headers={"host": host, **headers})


@pytest.mark.parametrize("host", CASES["allowed_names_and_all_addresses_are_accepted_at_any_port"])
async def test_allowed_names_and_all_addresses_are_accepted_at_any_port(host: str) -> None:
    assert (await send_request(host, IN_COMPOSE)).text == "inside"


@pytest.mark.parametrize("host", CASES["other_names_are_rejected"])
async def test_other_names_are_rejected(host: str) -> None:
    response = await send_request(host, IN_COMPOSE)
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "urn:vigil:problem:foreign-host"
    assert repr(host) in response.json()["detail"]


async def test_the_rejection_names_the_setting() -> None:
    response = await send_request("Vigil.example:8080", [])
    assert "VIGIL_ALLOWED_HOSTS=vigil.example." in response.json()["detail"]
    assert (await send_request("Vigil.example:8080", ["vigil.example"])).text == "inside"


async def test_foreign_origins_are_rejected_for_an_allowed_host() -> None:
    response = await send_request("api:8080", IN_COMPOSE, origin="https://elsewhere.example")
    assert (response.status_code, response.json()["type"]) == (
        403,
        "urn:vigil:problem:foreign-page",
    )
    for origin in ("null", "http://[::1", ""):
        assert (await send_request("api:8080", IN_COMPOSE, origin=origin)).status_code == 403
    assert (await send_request("api:8080", IN_COMPOSE, origin="http://api:8080")).text == "inside"


@pytest.mark.parametrize(
    ("public_url", "origin", "is_accepted"),
    CASES["behind_a_proxy_that_replaces_the_host_pages_of_the_public_url_are_accepted"],
)
async def test_behind_a_proxy_that_replaces_the_host_pages_of_the_public_url_are_accepted(
    public_url: str, origin: str, is_accepted: bool
) -> None:
    response = await send_request("127.0.0.1:8080", [], public_url, origin=origin)
    assert (response.status_code == 200) == is_accepted
    if not is_accepted:
        assert f"VIGIL_PUBLIC_URL={origin}" in response.json()["detail"]
        assert "header Host" in response.json()["detail"]


@pytest.mark.parametrize(("variable", "hosts"), CASES["hosts_are_separated_by_commas"])
def test_hosts_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, variable: str, hosts: list[str]
) -> None:
    monkeypatch.setenv("VIGIL_ALLOWED_HOSTS", variable)
    assert Settings().allowed_hosts == tuple(hosts)
