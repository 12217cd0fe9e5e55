"""Foreign pages in a browser that is signed in."""

import httpx
import pytest

from tests.support.api.clients import MISSION, assert_problem
from tests.support.attacks.attack_setup import AttackSetup, client_from_new_address
from tests.support.attacks.pages import FOREIGN, OWN_PAGE
from tests.support.attacks.routes import Route, guarded_routes

UNSAFE = [route for route in guarded_routes() if not route.is_safe]


@pytest.mark.parametrize("page", FOREIGN)
async def test_foreign_pages_cannot_change_anything(attack_setup: AttackSetup, page: str) -> None:
    before = await attack_setup.state()
    for route in UNSAFE:
        answer = await _send_with_session(attack_setup, route, FOREIGN[page])
        assert_problem(answer, 403)
        assert answer.json()["type"] == "urn:vigil:problem:foreign-page"
    assert await attack_setup.state() == before


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
async def test_forms_of_foreign_pages_cannot_change_anything(
    attack_setup: AttackSetup, content_type: str
) -> None:
    before = await attack_setup.state()
    headers = {
        **FOREIGN["another site"],
        **attack_setup.victim.cookie,
        "content-type": content_type,
    }
    async with client_from_new_address(attack_setup.app, headers=headers) as client:
        for route in UNSAFE:
            url = f"http://127.0.0.1{route.url(attack_setup.victim.values)}"
            assert (await client.request(route.method, url, content=b"{}")).status_code == 403
    assert await attack_setup.state() == before


@pytest.mark.parametrize(
    "page",
    [OWN_PAGE, {"sec-fetch-site": "same-origin"}, {"origin": "http://127.0.0.1"}],
    ids=["both", "fetch metadata", "origin"],
)
async def test_own_pages_may_change_data(attack_setup: AttackSetup, page: dict[str, str]) -> None:
    headers = {**attack_setup.victim.cookie, **page}
    async with client_from_new_address(attack_setup.app, headers=headers) as client:
        response = await client.post("/agents", json={"mission": MISSION})
        assert response.status_code == 201
        assert (await client.delete(f"/agents/{response.json()['id']}")).status_code == 204


async def _send_with_session(
    attack_setup: AttackSetup, route: Route, page: dict[str, str]
) -> httpx.Response:
    async with client_from_new_address(
        attack_setup.app, headers={**attack_setup.victim.cookie, **page}
    ) as client:
        url = f"http://127.0.0.1{route.url(attack_setup.victim.values)}"
        return await client.request(route.method, url, json=route.body)
