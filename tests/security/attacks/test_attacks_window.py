"""The window's pages under attack: by strangers, by other users, and from pages of others."""

import re
from collections.abc import Iterator

import pytest
from fastapi.routing import APIRoute

from services.api.web import app as window
from services.api.web.rendering import PAGE_HEADERS
from tests.support.attacks.pages import FOREIGN
from tests.support.attacks.world import Person, World, from_anywhere

OPEN = ("/sign-in",)
BROWSER = {"accept": "text/html"}
HOST = "http://127.0.0.1"
SAFE = ("GET", "HEAD")


def pages() -> Iterator[tuple[str, str]]:
    """Method and path of every page, and of all that pages send."""
    for router in window.PAGES:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            yield from ((method, route.path) for method in sorted(route.methods or ()))


PAGES = [each for each in pages() if each[1] not in OPEN]
OF_AGENTS = [each for each in PAGES if "{agent}" in each[1]]


def address(path: str, person: Person) -> str:
    return f"{HOST}{path.format_map(person.values)}"


def _without_what_was_asked(told: str, path: str, person: Person) -> str:
    """A refusal names what it was asked for, which is nothing new to whoever asked."""
    for name in re.findall(r"{(\w+)}", path):
        told = told.replace(person.values[name], "")
    return told


def test_there_are_pages() -> None:
    assert ("GET", "/agents") in PAGES


@pytest.mark.parametrize(("method", "path"), PAGES)
async def test_strangers_are_led_to_the_sign_in(world: World, method: str, path: str) -> None:
    async with from_anywhere(world.app, headers=BROWSER) as client:
        answer = await client.request(method, address(path, world.victim))
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        answer = await client.request(
            method, address(path, world.victim), headers={"hx-request": "true"}
        )
        assert (answer.status_code, answer.headers["hx-redirect"]) == (204, "/sign-in")


@pytest.mark.parametrize(("method", "path"), OF_AGENTS)
async def test_nobody_sees_or_changes_what_is_anothers(
    world: World, method: str, path: str
) -> None:
    before = await world.state()
    headers = {**BROWSER, **world.attacker.cookie, "sec-fetch-site": "same-origin"}
    async with from_anywhere(world.app, headers=headers) as client:
        answer = await client.request(method, address(path, world.victim))
    assert answer.status_code in (404, 422)
    told = _without_what_was_asked(answer.text, path, world.victim)
    assert not [each for each in world.victim.private if each in told]
    assert await world.state() == before


@pytest.mark.parametrize("page", FOREIGN)
async def test_no_page_of_others_sends_anything(world: World, page: str) -> None:
    before = await world.state()
    headers = {**BROWSER, **world.victim.cookie, **FOREIGN[page]}
    async with from_anywhere(world.app, headers=headers) as client:
        for method, path in PAGES:
            if method not in SAFE:
                answer = await client.request(method, address(path, world.victim))
                assert answer.status_code == 403, path
    assert await world.state() == before


@pytest.mark.parametrize("path", [path for method, path in PAGES if method == "GET"])
async def test_every_page_says_what_a_browser_may_run(world: World, path: str) -> None:
    async with from_anywhere(world.app, headers={**BROWSER, **world.victim.cookie}) as client:
        answer = await client.get(address(path, world.victim))
    assert answer.status_code in (200, 303, 403), answer.text
    if answer.status_code != 303:
        # A page that is long is sent compressed to who takes that.
        longer = {"Vary": f"{PAGE_HEADERS['Vary']}, Accept-Encoding"}
        for name, value in PAGE_HEADERS.items():
            assert answer.headers[name] in (value, longer.get(name, value))
        assert " style=" not in answer.text
        assert "<script>" not in answer.text


@pytest.mark.parametrize("path", ["/costs", "/agents/{agent}/costs"])
async def test_a_day_that_was_cleared_is_one_that_was_not_given(world: World, path: str) -> None:
    headers = {**world.victim.cookie, **BROWSER}
    async with from_anywhere(world.app, headers=headers) as client:
        for query in ("since=", "until=", "since=&until=2026-01-31"):
            answer = await client.get(f"{address(path, world.victim)}?{query}")
            assert answer.status_code == 200, answer.text[:300]
        beyond = await client.get(f"{address(path, world.victim)}?until=9999-12-31")
        assert beyond.status_code == 422
