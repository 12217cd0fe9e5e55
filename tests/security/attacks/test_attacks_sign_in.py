"""Sign-in links and sessions: replayed, altered, expired, and used by pages of others."""

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
from services.api.auth.sign_in_links import MAX_LINKS_FROM_UNKNOWN, MAX_LINKS_PER_ADDRESS
from shared.accounts import credentials
from shared.accounts.credentials import IDLE_SESSION_LIFETIME, MAX_LINKS
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import BrowserSession, SignInLink, User
from shared.enums import AccessScope
from shared.runtime.settings import Settings
from tests.conftest import cloned
from tests.support.api.asking import assert_problem
from tests.support.api.signed_in import session_cookie, token_of
from tests.support.attacks.pages import FOREIGN, OWN_PAGE
from tests.support.attacks.world import SECRETS, from_anywhere, session_of
from tests.support.engines import Postgres
from tests.support.postbox import open_postbox

LINK = "/sign-in/link"


@pytest.fixture
async def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url)


@pytest.fixture
async def browser(settings: Settings, database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """Of somebody who is not signed in; there is a user `anna`."""
    async with database.transaction() as session:
        await agents.ensure_user(session, "anna")
    async with from_anywhere(build(settings)) as client:
        yield client


async def link_for(browser: httpx.AsyncClient, user: str = "anna") -> str:
    """The secret of the link that is printed to the log."""
    with capture_logs() as lines:
        assert (await browser.post("/sign-in", json={"user": user})).status_code == 202
    (url,) = [line["sign_in_link"] for line in lines if "sign_in_link" in line]
    return str(parse_qs(urlsplit(url).query)["secret"][0])


async def entered(browser: httpx.AsyncClient, secret: str, **headers: str) -> httpx.Response:
    return await browser.post(LINK, params={"secret": secret}, headers=headers or OWN_PAGE)


async def count(database: Database, table: type[Any]) -> int:
    async with database.transaction() as session:
        return int(await session.scalar(select(func.count()).select_from(table)) or 0)


async def test_a_link_works_once_and_looking_at_it_uses_nothing_up(
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
    answer = await entered(browser, secret)
    assert answer.status_code == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie.replace(secret.lower(), "")
    assert (await browser.get("/me")).json()["user"]["name"] == "anna"
    browser.cookies.clear()
    assert (await entered(browser, secret)).status_code == 410
    assert (await browser.get("/me")).status_code == 401


async def test_of_many_at_once_one_comes_in(browser: httpx.AsyncClient, database: Database) -> None:
    secret = await link_for(browser)
    answers = await asyncio.gather(*(entered(browser, secret) for _ in range(16)))
    assert sorted(answer.status_code for answer in answers) == [303] + [410] * 15
    assert await count(database, BrowserSession) == 1


@pytest.mark.parametrize("change", ["cut", "longer", "last letter", "case", "empty", "token"])
async def test_an_altered_link_lets_nobody_in(
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
    assert (await entered(browser, bad)).status_code == 410
    assert await count(database, BrowserSession) == 0
    assert (await entered(browser, secret)).status_code == 303


@pytest.mark.parametrize("why", ["expired", "disabled", "removed"])
async def test_a_dead_link_lets_nobody_in(
    browser: httpx.AsyncClient, database: Database, why: str
) -> None:
    secret = await link_for(browser)
    async with database.transaction() as session:
        anna = await credentials.find_user(session, "anna")
        assert anna is not None
        if why == "expired":
            passed = SignInLink.created_at - timedelta(seconds=1)
            await session.execute(update(SignInLink).values(expires_at=passed))
        elif why == "disabled":
            # By another hand than the api's, which takes the links away as well.
            await session.execute(update(User).values(disabled_at=func.clock_timestamp()))
        else:
            await credentials.delete_user(session, anna.id)
    assert (await entered(browser, secret)).status_code == 410
    assert await count(database, BrowserSession) == 0


async def test_nobody_learns_who_there_is(browser: httpx.AsyncClient, database: Database) -> None:
    await link_for(browser)
    async with database.transaction() as session:
        made = await credentials.create_user(session, name="gone", email=None, operator=False)
        await credentials.set_disabled(session, made.id, disabled=True)
    answers = []
    for user in ("anna", "nobody", "gone", "anna@example.org", "' or true --"):
        async with from_anywhere(browser._transport.app) as other:  # type: ignore[attr-defined]  # the same application
            answers.append(await other.post("/sign-in", json={"user": user}))
    assert {(answer.status_code, answer.text) for answer in answers} == {(202, answers[0].text)}
    assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1


async def test_links_go_by_mail_where_the_server_says_and_never_where_the_request_says(
    database_url: str, database: Database
) -> None:
    async with database.transaction() as session:
        await credentials.create_user(
            session, name="anna", email="Anna@example.org", operator=False
        )
    async with open_postbox() as box:
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
        async with from_anywhere(build(settings), headers=evil) as browser:
            with capture_logs() as lines:
                for user in ("anna@EXAMPLE.org", "bert@example.org"):
                    await browser.post("/sign-in", json={"user": user})
        (mail,) = box.mails
    assert mail.recipients == ["Anna@example.org"]
    assert "https://vigil.example/api/v1/sign-in/link?secret=" in mail.text
    assert "evil" not in mail.text + mail.message.as_string()
    assert not SECRETS.search(str(lines))


async def test_over_tls_the_cookie_is_this_hosts_alone(
    database_url: str, database: Database
) -> None:
    app = build(Settings(database_url=database_url, public_url="https://vigil.example"))
    async with database.transaction() as session:
        await agents.ensure_user(session, "anna")
    async with from_anywhere(app, follow_redirects=False) as browser:
        answer = await entered(
            browser, await link_for(browser), **{"sec-fetch-site": "same-origin"}
        )
        cookie = answer.headers["set-cookie"]
        name = await session_cookie(app.state.settings, database)
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


async def test_two_installations_on_one_host_keep_their_sessions_apart(
    postgres: Postgres, settings: Settings, database: Database
) -> None:
    """A browser sends the cookies of one port to every other port of the host."""
    with cloned(postgres) as url:
        other_settings, other_database = Settings(database_url=url), Database(url, name="test")
        jar = httpx.Cookies()
        for where, of in ((settings, database), (other_settings, other_database)):
            async with of.transaction() as session:
                await agents.ensure_user(session, "anna")
            async with from_anywhere(build(where), cookies=jar) as browser:
                assert (await entered(browser, await link_for(browser))).status_code == 303
                jar = browser.cookies
        for where in (settings, other_settings):
            async with from_anywhere(build(where), cookies=jar) as browser:
                assert (await browser.get("/me")).json()["user"]["name"] == "anna"
        async with from_anywhere(build(settings), cookies=jar, headers=OWN_PAGE) as browser:
            assert (await browser.post("/sign-out")).status_code == 204
            jar = browser.cookies
        async with from_anywhere(build(other_settings), cookies=jar) as browser:
            assert (await browser.get("/me")).status_code == 200
        await other_database.close()


async def test_who_asks_in_anothers_name_keeps_nobody_out(
    browser: httpx.AsyncClient, database: Database
) -> None:
    app = browser._transport.app  # type: ignore[attr-defined]  # the same application
    first = await link_for(browser)
    await strangers_ask(app, MAX_LINKS_FROM_UNKNOWN // 2)
    assert (await entered(browser, await link_for(browser))).status_code == 303
    assert (await browser.get("/me")).status_code == 200
    # From here on the browser's address is one that the user has come in from.
    await strangers_ask(app, 2 * MAX_LINKS_FROM_UNKNOWN)
    links = await count(database, SignInLink)
    assert MAX_LINKS_FROM_UNKNOWN - 5 < links < MAX_LINKS
    assert (await entered(browser, first)).status_code == 303
    assert (await entered(browser, await link_for(browser))).status_code == 303


async def strangers_ask(app: FastAPI, count: int) -> None:
    for _ in range(count):
        async with from_anywhere(app) as stranger:
            answer = await stranger.post("/sign-in", json={"user": "anna"})
            assert answer.status_code == 202


async def test_strangers_do_not_keep_a_signed_in_user_from_a_link(
    settings: Settings, browser: httpx.AsyncClient
) -> None:
    app = browser._transport.app  # type: ignore[attr-defined]  # the same application
    token = await token_of(settings, "anna", [AccessScope.READ, AccessScope.WRITE])
    await strangers_ask(app, 2 * MAX_LINKS_FROM_UNKNOWN)
    async with from_anywhere(app, headers={"authorization": f"Bearer {token}"}) as anna:
        links = [(await anna.post("/me/sign-in-links")).json()["url"] for _ in range(20)]
    secret = parse_qs(urlsplit(links[-1]).query)["secret"][0]
    assert (await entered(browser, secret)).status_code == 303


async def test_one_address_is_sent_few_links_by_whatever_name_it_asks(
    database: Database, browser: httpx.AsyncClient
) -> None:
    async with database.transaction() as session:
        made = await credentials.create_user(
            session, name="bert", email="b@example.org", operator=False
        )
    for name in ("bert", "b@example.org", "B@EXAMPLE.ORG", str(made.id), str(made.id).upper()):
        for _ in range(MAX_LINKS_PER_ADDRESS):
            await browser.post("/sign-in", json={"user": name})
    assert await count(database, SignInLink) == MAX_LINKS_PER_ADDRESS


async def test_requests_for_others_do_not_use_up_a_users_own(browser: httpx.AsyncClient) -> None:
    """Of one address: many people can come from one."""
    for number in range(200):
        answer = await browser.post("/sign-in", json={"user": f"nobody {number}"})
        assert answer.status_code == 202
    assert (await entered(browser, await link_for(browser))).status_code == 303


async def test_the_newest_links_of_a_user_are_kept(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
    made = []
    for _ in range(MAX_LINKS + 5):
        async with database.transaction() as session:
            made.append((await credentials.create_link(session, anna))[1])
    assert await count(database, SignInLink) == MAX_LINKS
    async with database.transaction() as session:
        assert await credentials.open_session(session, made[4], "a browser") is None
        assert await credentials.open_session(session, made[5], "a browser") is not None


async def test_one_address_asks_for_few_links(browser: httpx.AsyncClient) -> None:
    asked = [await browser.post("/sign-in", json={"user": "anna"}) for _ in range(30)]
    assert {answer.status_code for answer in asked[:10]} == {202}
    for answer in asked[10:]:
        assert_problem(answer, 429)
        assert int(answer.headers["retry-after"]) <= 60


@pytest.mark.parametrize(
    "page", [page for page in FOREIGN if page not in ("by hand", "nothing at all")]
)
async def test_a_page_of_others_signs_nobody_in(browser: httpx.AsyncClient, page: str) -> None:
    """Or it would make its own user of whoever looks at it."""
    secret = await link_for(browser)
    answer = await browser.post(LINK, params={"secret": secret}, headers=FOREIGN[page])
    assert_problem(answer, 403)
    asked = await browser.post("/sign-in", json={"user": "anna"}, headers=FOREIGN[page])
    assert_problem(asked, 403)
    assert (await entered(browser, secret)).status_code == 303


@pytest.mark.parametrize("why", ["signed out", "ended elsewhere", "idle", "too old", "disabled"])
async def test_an_ended_session_lets_nobody_in(
    settings: Settings, database: Database, why: str
) -> None:
    name = await session_cookie(settings, database)
    cookie = {"cookie": f"{name}={await session_of(database, 'anna')}"}
    other = {"cookie": f"{name}={await session_of(database, 'anna')}", **OWN_PAGE}
    async with from_anywhere(build(settings), headers={**cookie, **OWN_PAGE}) as client:
        assert (await client.get("/me")).status_code == 200
        if why == "signed out":
            left = await client.post("/sign-out")
            assert (left.status_code, "Max-Age=0" in left.headers["set-cookie"]) == (204, True)
        elif why == "ended elsewhere":
            (mine, another) = (await client.get("/sessions", headers=other)).json()["items"]
            assert (mine["current"], another["current"]) == (True, False)
            ended = await client.delete(f"/sessions/{another['id']}", headers=other)
            assert ended.status_code == 204
        else:
            await _end(database, why)
        assert (await client.get("/me")).status_code == 401


async def _end(database: Database, why: str) -> None:
    async with database.transaction() as session:
        if why == "disabled":
            await session.execute(update(User).values(disabled_at=func.clock_timestamp()))
        elif why == "idle":
            unused = func.clock_timestamp() - IDLE_SESSION_LIFETIME - timedelta(minutes=1)
            await session.execute(update(BrowserSession).values(last_used_at=unused))
        else:
            await session.execute(update(BrowserSession).values(ends_at=func.clock_timestamp()))
