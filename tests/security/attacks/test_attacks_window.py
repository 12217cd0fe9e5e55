"""Attacks on the pages of the web UI: without a session, by other users, and from foreign pages, also in a browser."""

import re
from collections.abc import Iterator
from itertools import product

import httpx
import pytest
from fastapi.routing import APIRoute

from services.api.web import app as web_ui
from services.api.web.rendering import PAGE_HEADERS
from tests.support.api.clients import MISSION, assert_problem
from tests.support.attacks.attack_setup import AttackSetup, Person, client_from_new_address
from tests.support.attacks.pages import FOREIGN, OWN_PAGE
from tests.support.attacks.routes import Route, guarded_routes


@pytest.mark.parametrize("page", FOREIGN)
async def test_foreign_pages_cannot_change_anything(attack_setup: AttackSetup, page: str) -> None:
    before = await attack_setup.state()
    for route in (each for each in guarded_routes() if not each.is_safe):
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
        for route in (each for each in guarded_routes() if not each.is_safe):
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


OPEN = ("/sign-in",)
BROWSER = {"accept": "text/html"}
HOST = "http://127.0.0.1"
SAFE = ("GET", "HEAD")


def pages() -> Iterator[tuple[str, str]]:
    """Yield the method and path of every page and form action."""
    for router in web_ui.PAGES:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            yield from ((method, route.path) for method in sorted(route.methods or ()))


PAGES = [(method, path) for method, path in pages() if path not in OPEN]
UNSAFE_PAGES = [(method, path) for method, path in PAGES if method not in SAFE]
AGENT_PAGES = [(method, path) for method, path in PAGES if "{agent}" in path]


QUERIES = {
    "/agents/{agent}/graph/paths": "?from={node_id}&to={kept}",
    "/agents/{agent}/edges": "?source={source_node}&target={target_node}&type=buys",
}
"""The queries of pages that need one."""


def address(path: str, person: Person) -> str:
    return f"{HOST}{(path + QUERIES.get(path, '')).format_map(person.values)}"


def _without_requested_names(text: str, path: str, person: Person) -> str:
    """Remove the requested names, which a refusal may repeat."""
    for name in re.findall(r"{(\w+)}", path):
        text = text.replace(person.values[name], "")
    return text


def test_there_are_pages() -> None:
    assert ("GET", "/agents") in PAGES


async def test_without_a_session_pages_redirect_to_the_sign_in(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    for method, path in PAGES:
        url = address(path, attack_setup.victim)
        with subtests.test(f"{method} {path}"):
            async with client_from_new_address(attack_setup.app, headers=BROWSER) as client:
                answer = await client.request(method, url)
                assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
                answer = await client.request(method, url, headers={"hx-request": "true"})
                assert (answer.status_code, answer.headers["hx-redirect"]) == (204, "/sign-in")


async def test_no_user_sees_or_changes_the_agents_of_others(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    before = await attack_setup.state()
    headers = {**BROWSER, **attack_setup.attacker.cookie, "sec-fetch-site": "same-origin"}
    async with client_from_new_address(attack_setup.app, headers=headers) as client:
        for method, path in AGENT_PAGES:
            with subtests.test(f"{method} {path}"):
                answer = await client.request(method, address(path, attack_setup.victim))
                assert answer.status_code in (404, 422)
                text = _without_requested_names(answer.text, path, attack_setup.victim)
                assert not [private for private in attack_setup.victim.private if private in text]
    assert await attack_setup.state() == before


async def test_requests_from_foreign_pages_are_refused(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    before = await attack_setup.state()
    for page, (method, path) in product(FOREIGN, UNSAFE_PAGES):
        headers = {**BROWSER, **attack_setup.victim.cookie, **FOREIGN[page]}
        with subtests.test(f"{page}: {method} {path}"):
            async with client_from_new_address(attack_setup.app, headers=headers) as client:
                answer = await client.request(method, address(path, attack_setup.victim))
            assert answer.status_code == 403
    assert await attack_setup.state() == before


async def test_every_page_has_a_content_security_policy(
    attack_setup: AttackSetup, subtests: pytest.Subtests
) -> None:
    headers = {**BROWSER, **attack_setup.victim.cookie}
    # A long page is compressed if the client accepts that.
    longer = {"Vary": f"{PAGE_HEADERS['Vary']}, Accept-Encoding"}
    async with client_from_new_address(attack_setup.app, headers=headers) as client:
        for path in [path for method, path in PAGES if method == "GET"]:
            with subtests.test(path):
                answer = await client.get(address(path, attack_setup.victim))
                assert answer.status_code in (200, 303, 403), answer.text
                if answer.status_code == 303:
                    continue
                for name, value in PAGE_HEADERS.items():
                    assert answer.headers[name] in (value, longer.get(name, value))
                assert " style=" not in answer.text
                assert "<script>" not in answer.text
