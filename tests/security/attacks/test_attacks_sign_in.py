"""Sign-in links and sessions: replayed, altered, expired, and used by foreign pages."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import func, select, update
from structlog.testing import capture_logs

from services.api.app import build
from services.api.auth.middleware import cookie_name, former_cookie_name
from services.api.auth.sign_in_links import MAX_LINKS_FROM_UNKNOWN, MAX_LINKS_PER_ADDRESS
from shared.accounts import credentials
from shared.accounts.credentials import IDLE_SESSION_LIFETIME, MAX_LINKS
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import BrowserSession, SignInLink, User
from shared.enums import AccessScope
from shared.runtime.settings import Settings
from tests.conftest import cloned
from tests.support.api.clients import assert_problem
from tests.support.api.signed_in import create_token, session_cookie_name
from tests.support.attacks.attack_setup import SECRETS, client_from_new_address, open_session
from tests.support.attacks.pages import FOREIGN, OWN_PAGE
from tests.support.engines import Postgres
from tests.support.smtp_server import run_smtp_server

LINK = "/sign-in/link"


@pytest.fixture
async def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url)


@pytest.fixture
async def browser(settings: Settings, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without a session; the user `anna` exists."""
    async with database.transaction() as session:
        await agents.ensure_user(session, "anna")
    async with client_from_new_address(build(settings)) as client:
        yield client


async def link_for(browser: httpx.AsyncClient, user: str = "anna") -> str:
    """Return the secret of the link that is written to the log."""
    with capture_logs() as lines:
        assert (await browser.post("/sign-in", json={"user": user})).status_code == 202
    (url,) = [line["sign_in_link"] for line in lines if "sign_in_link" in line]
    return str(parse_qs(urlsplit(url).query)["secret"][0])


async def use_link(browser: httpx.AsyncClient, secret: str, **headers: str) -> httpx.Response:
    return await browser.post(LINK, params={"secret": secret}, headers=headers or OWN_PAGE)


async def count_rows(database: Database, table: type[Any]) -> int:
    async with database.transaction() as session:
        return int(await session.scalar(select(func.count()).select_from(table)) or 0)


async def test_a_link_works_once_and_viewing_it_does_not_use_it(
    browser: httpx.AsyncClient,
) -> None:
    secret = await link_for(browser)
    for _ in range(3):
        page = await browser.get(LINK, params={"secret": secret})
        assert (page.status_code, secret in page.text, "set-cookie" in page.headers) == (
            200,
            False,
            False,
        )
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script" not in page.text + policy
        await browser.head(LINK, params={"secret": secret})
    answer = await use_link(browser, secret)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie.replace(secret.lower(), "")
    assert (await browser.get("/me")).json()["user"]["name"] == "anna"
    browser.cookies.clear()
    assert (await use_link(browser, secret)).status_code == 410
    assert (await browser.get("/me")).status_code == 401


async def test_one_of_many_concurrent_uses_of_a_link_succeeds(
    browser: httpx.AsyncClient, database: Database
) -> None:
    secret = await link_for(browser)
    answers = await asyncio.gather(*(use_link(browser, secret) for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [303] + [410] * 15
    assert await count_rows(database, BrowserSession) == 1


@pytest.mark.parametrize("change", ["cut", "longer", "last letter", "case", "empty", "token"])
async def test_an_altered_link_is_refused(
    browser: httpx.AsyncClient, database: Database, change: str
) -> None:
    secret = await link_for(browser)
    bad = {
        "cut": secret[:-1],
        "longer": f"{secret}A",
        "last letter": f"{secret[:-1]}{'A' if secret[-1] != 'A' else 'B'}",
        "case": secret.swapcase(),
        "empty": "",
        "token": f"vgl_{secret}",
    }[change]
    assert (await use_link(browser, bad)).status_code == 410
    assert await count_rows(database, BrowserSession) == 0
    assert (await use_link(browser, secret)).status_code == 303


@pytest.mark.parametrize("reason", ["expired", "disabled", "removed"])
async def test_an_invalidated_link_is_refused(
    browser: httpx.AsyncClient, database: Database, reason: str
) -> None:
    secret = await link_for(browser)
    async with database.transaction() as session:
        anna = await credentials.find_user(session, "anna")
        assert anna is not None
        if reason == "expired":
            past = SignInLink.created_at - timedelta(seconds=1)
            await session.execute(update(SignInLink).values(expires_at=past))
        elif reason == "disabled":
            # Directly in the table: the API would delete the links as well.
            await session.execute(update(User).values(disabled_at=func.clock_timestamp()))
        else:
            await credentials.delete_user(session, anna.id)
    assert (await use_link(browser, secret)).status_code == 410
    assert await count_rows(database, BrowserSession) == 0


async def test_the_sign_in_does_not_disclose_which_users_exist(
    browser: httpx.AsyncClient, database: Database
) -> None:
    await link_for(browser)
    async with database.transaction() as session:
        user_row = await credentials.create_user(session, name="gone", email=None, operator=False)
        await credentials.set_disabled(session, user_row.id, disabled=True)
    answers = []
    for user in ("anna", "nobody", "gone", "anna@example.org", "' or true --"):
        async with client_from_new_address(browser._transport.app) as client:  # type: ignore[attr-defined]  # the same application
            answers.append(await client.post("/sign-in", json={"user": user}))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1


async def test_mailed_links_have_the_configured_host_and_not_that_of_the_request(
    database_url: str, database: Database
) -> None:
    async with database.transaction() as session:
        await credentials.create_user(
            session, name="anna", email="Anna@example.org", operator=False
        )
    async with run_smtp_server() as box:
        settings = Settings(
            database_url=database_url,
            smtp_url=SecretStr(f"smtp://{box.address}"),
            mail_from="vigil@example.org",
            public_url="https://vigil.example/",
        )
        evil = {
            "host": "127.0.0.1:6666",
            "x-forwarded-host": "evil.example",
            "forwarded": "host=evil",
        }
        async with client_from_new_address(build(settings), headers=evil) as browser:
            with capture_logs() as lines:
                for user in ("anna@EXAMPLE.org", "bert@example.org"):
                    await browser.post("/sign-in", json={"user": user})
        (mail,) = box.mails
    assert mail.recipients == ["Anna@example.org"]
    assert "https://vigil.example/api/v1/sign-in/link?secret=" in mail.text
    assert "evil" not in mail.text + mail.message.as_string()
    assert not SECRETS.search(str(lines))


async def test_over_tls_the_cookie_is_bound_to_the_host(
    database_url: str, database: Database
) -> None:
    app = build(Settings(database_url=database_url, public_url="https://vigil.example"))
    async with database.transaction() as session:
        await agents.ensure_user(session, "anna")
    async with client_from_new_address(app, follow_redirects=False) as browser:
        answer = await use_link(
            browser, await link_for(browser), **{"sec-fetch-site": "same-origin"}
        )
        cookie = answer.headers["set-cookie"]
        name = await session_cookie_name(app.state.settings, database)
        assert name.startswith("__Host-vigil_session_")
        assert cookie.startswith(f"{name}=")
        assert {"Secure", "HttpOnly", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert "domain" not in cookie.lower()
        secret = cookie.partition("=")[2].partition(";")[0]
        plain = await browser.get(
            "/me", headers={"cookie": f"{name.removeprefix('__Host-')}={secret}"}
        )
        assert plain.status_code == 401
        own = await browser.get("/me", headers={"cookie": f"{name}={secret}"})
        assert own.status_code == 200


async def test_sessions_of_two_installations_on_one_host_do_not_conflict(
    postgres: Postgres, settings: Settings, database: Database
) -> None:
    """A browser sends the cookies of one port to every other port of the host."""
    with cloned(postgres) as url:
        other_settings, other_database = Settings(database_url=url), Database(url, name="test")
        jar = httpx.Cookies()
        for own_settings, own_database in ((settings, database), (other_settings, other_database)):
            async with own_database.transaction() as session:
                await agents.ensure_user(session, "anna")
            async with client_from_new_address(build(own_settings), cookies=jar) as browser:
                assert (await use_link(browser, await link_for(browser))).status_code == 303
                jar = browser.cookies
        for own_settings in (settings, other_settings):
            async with client_from_new_address(build(own_settings), cookies=jar) as browser:
                assert (await browser.get("/me")).json()["user"]["name"] == "anna"
        async with client_from_new_address(
            build(settings), cookies=jar, headers=OWN_PAGE
        ) as browser:
            assert (await browser.post("/sign-out")).status_code == 204
            jar = browser.cookies
        async with client_from_new_address(build(other_settings), cookies=jar) as browser:
            assert (await browser.get("/me")).status_code == 200
        await other_database.close()


async def test_sessions_of_two_copies_of_an_installation_on_one_host_do_not_conflict(
    settings: Settings, database: Database
) -> None:
    """Copies have the same owner; they differ in the port."""
    async with database.transaction() as session:
        await agents.ensure_user(session, "anna")
    copies = [settings.model_copy(update={"port": port}) for port in (8080, 8081)]
    jar = httpx.Cookies()
    for copied in copies:
        async with client_from_new_address(build(copied), cookies=jar) as browser:
            assert (await use_link(browser, await link_for(browser))).status_code == 303
            jar = browser.cookies
    secrets = [jar[await session_cookie_name(copied, database)] for copied in copies]
    assert len(set(secrets)) == len(copies)
    for copied in copies:
        async with client_from_new_address(build(copied), cookies=jar) as browser:
            answer = await browser.get("/me")
            assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)


async def test_a_cookie_of_the_former_name_signs_in_and_is_replaced(
    settings: Settings, database: Database
) -> None:
    async with database.transaction() as session:
        owner_id = await credentials.ensure_owner(session, settings.owner)
    former, present = former_cookie_name(settings, owner_id), cookie_name(settings, owner_id)
    secret = await open_session(database, "anna")
    cookie = {"cookie": f"{former}={secret}", **OWN_PAGE}
    async with client_from_new_address(build(settings)) as browser:
        answer = await browser.get("/me", headers=cookie)
        assert answer.json()["user"]["name"] == "anna"
        added, removed = answer.headers.get_list("set-cookie")
        assert added.startswith(f"{present}={secret};")
        assert "HttpOnly" in added
        assert removed.startswith(f'{former}="";')
        assert "Max-Age=0" in removed
    async with client_from_new_address(build(settings)) as browser:
        own = await browser.get("/me", headers={"cookie": f"{present}={secret}"})
        assert (own.status_code, "set-cookie" in own.headers) == (200, False)
        both = {"cookie": f"{former}={'A' * 43}; {present}={secret}"}
        assert (await browser.get("/me", headers=both)).status_code == 200
        left = await browser.post("/sign-out", headers=cookie)
        assert left.status_code == 204
        assert all("Max-Age=0" in line for line in left.headers.get_list("set-cookie"))
        assert (await browser.get("/me", headers=cookie)).status_code == 401


async def test_link_requests_by_others_do_not_lock_a_user_out(
    browser: httpx.AsyncClient, database: Database
) -> None:
    app = browser._transport.app  # type: ignore[attr-defined]  # the same application
    first = await link_for(browser)
    await request_links_anonymously(app, MAX_LINKS_FROM_UNKNOWN // 2)
    assert (await use_link(browser, await link_for(browser))).status_code == 303
    assert (await browser.get("/me")).status_code == 200
    # From here on the user has signed in from the browser's address.
    await request_links_anonymously(app, 2 * MAX_LINKS_FROM_UNKNOWN)
    links = await count_rows(database, SignInLink)
    assert MAX_LINKS_FROM_UNKNOWN - 5 < links < MAX_LINKS
    assert (await use_link(browser, first)).status_code == 303
    assert (await use_link(browser, await link_for(browser))).status_code == 303


async def request_links_anonymously(app: FastAPI, times: int) -> None:
    for _ in range(times):
        async with client_from_new_address(app) as client:
            answer = await client.post("/sign-in", json={"user": "anna"})
            assert answer.status_code == 202


async def test_link_requests_by_others_do_not_block_a_signed_in_user(
    settings: Settings, browser: httpx.AsyncClient
) -> None:
    app = browser._transport.app  # type: ignore[attr-defined]  # the same application
    token = await create_token(settings, "anna", [AccessScope.READ, AccessScope.WRITE])
    await request_links_anonymously(app, 2 * MAX_LINKS_FROM_UNKNOWN)
    async with client_from_new_address(app, headers={"authorization": f"Bearer {token}"}) as anna:
        links = [(await anna.post("/me/sign-in-links")).json()["url"] for _ in range(20)]
    secret = parse_qs(urlsplit(links[-1]).query)["secret"][0]
    assert (await use_link(browser, secret)).status_code == 303


async def test_the_limit_of_links_counts_all_names_of_a_user_together(
    database: Database, browser: httpx.AsyncClient
) -> None:
    async with database.transaction() as session:
        user = await credentials.create_user(
            session, name="bert", email="b@example.org", operator=False
        )
    for name in ("bert", "b@example.org", "B@EXAMPLE.ORG", str(user.id), str(user.id).upper()):
        for _ in range(MAX_LINKS_PER_ADDRESS):
            await browser.post("/sign-in", json={"user": name})
    assert await count_rows(database, SignInLink) == MAX_LINKS_PER_ADDRESS


async def test_requests_for_other_users_do_not_count_against_a_user(
    browser: httpx.AsyncClient,
) -> None:
    """All from one address, which many users can share."""
    for number in range(200):
        answer = await browser.post("/sign-in", json={"user": f"nobody {number}"})
        assert answer.status_code == 202
    assert (await use_link(browser, await link_for(browser))).status_code == 303


async def test_the_newest_links_of_a_user_stay_valid(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
    secrets = []
    for _ in range(MAX_LINKS + 5):
        async with database.transaction() as session:
            secrets.append((await credentials.create_link(session, anna))[1])
    assert await count_rows(database, SignInLink) == MAX_LINKS
    async with database.transaction() as session:
        assert await credentials.open_session(session, secrets[4], "a browser") is None
        assert await credentials.open_session(session, secrets[5], "a browser") is not None


async def test_link_requests_of_one_address_are_limited(browser: httpx.AsyncClient) -> None:
    answers = [await browser.post("/sign-in", json={"user": "anna"}) for _ in range(30)]
    assert {answer.status_code for answer in answers[:10]} == {202}
    for answer in answers[10:]:
        assert_problem(answer, 429)
        assert int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    "page", [page for page in FOREIGN if page not in ("by hand", "no headers")]
)
async def test_a_foreign_page_cannot_sign_in(browser: httpx.AsyncClient, page: str) -> None:
    """Otherwise it could sign its visitors in as its own user."""
    secret = await link_for(browser)
    answer = await browser.post(LINK, params={"secret": secret}, headers=FOREIGN[page])
    assert_problem(answer, 403)
    requested = await browser.post("/sign-in", json={"user": "anna"}, headers=FOREIGN[page])
    assert_problem(requested, 403)
    assert (await use_link(browser, secret)).status_code == 303


@pytest.mark.parametrize("reason", ["signed out", "ended elsewhere", "idle", "too old", "disabled"])
async def test_an_ended_session_is_refused(
    settings: Settings, database: Database, reason: str
) -> None:
    name = await session_cookie_name(settings, database)
    cookie = {"cookie": f"{name}={await open_session(database, 'anna')}"}
    other = {"cookie": f"{name}={await open_session(database, 'anna')}", **OWN_PAGE}
    async with client_from_new_address(build(settings), headers={**cookie, **OWN_PAGE}) as client:
        assert (await client.get("/me")).status_code == 200
        if reason == "signed out":
            response = await client.post("/sign-out")
            assert (response.status_code, "Max-Age=0" in response.headers["set-cookie"]) == (
                204,
                True,
            )
        elif reason == "ended elsewhere":
            (current, other_session) = (await client.get("/sessions", headers=other)).json()[
                "items"
            ]
            assert (current["current"], other_session["current"]) == (True, False)
            response = await client.delete(f"/sessions/{other_session['id']}", headers=other)
            assert response.status_code == 204
        else:
            await _end_session(database, reason)
        assert (await client.get("/me")).status_code == 401


async def _end_session(database: Database, reason: str) -> None:
    async with database.transaction() as session:
        if reason == "disabled":
            await session.execute(update(User).values(disabled_at=func.clock_timestamp()))
        elif reason == "idle":
            last_use = func.clock_timestamp() - IDLE_SESSION_LIFETIME - timedelta(minutes=1)
            await session.execute(update(BrowserSession).values(last_used_at=last_use))
        else:
            await session.execute(update(BrowserSession).values(ends_at=func.clock_timestamp()))
