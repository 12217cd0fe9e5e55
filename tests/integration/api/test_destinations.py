"""Destinations over the api: made with a secret that is told once, looked at, tested, stopped, deleted."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from sqlalchemy import select

from shared.database.engine import Database
from shared.database.tables import Delivery, WebhookSecret
from shared.notifications import deliveries, destinations
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem, client_of, created
from tests.support.api.rows import row_of
from tests.support.notifier.rows import make_items

URL = "https://hooks.example.org/vigil"
MAIL: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "vigil@example.org"}


async def made(api: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await api.post("/destinations", json={"kind": "webhook", "address": URL, **wanted})
    assert answer.status_code == 201, answer.text
    destination: dict[str, Any] = answer.json()
    return destination


@pytest.fixture
async def mailing(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings.model_validate({"database_url": database_url, **MAIL})
    async with client_of(settings) as client:
        yield client


async def dispatched(database: Database) -> None:
    async with database.transaction() as session:
        await deliveries.dispatch(session, 100)


async def fail_all(database: Database) -> None:
    async with database.transaction() as session:
        leases = await deliveries.claim(
            session, "test", seconds=60, limit=100, per_destination=100, running_by_destination={}
        )
        for lease in leases:
            await deliveries.record_failed(session, lease, "the receiver answered 500", 500)


async def test_a_webhooks_secret_is_told_once(api: httpx.AsyncClient, database: Database) -> None:
    destination = await made(api)
    secret = destination.pop("secret")
    assert secret.startswith("whsec_")
    shown = await api.get(f"/destinations/{destination['id']}")
    assert shown.json() == {**destination, "deliveries": []}
    listed = await api.get("/destinations")
    assert listed.json() == {"items": [destination], "next": None}
    assert secret not in shown.text + listed.text
    async with database.transaction() as session:
        assert (await session.scalars(select(WebhookSecret.secret))).all() == [secret]


async def test_one_may_be_for_one_agent(api: httpx.AsyncClient) -> None:
    agent = await created(api, name="Lithium")
    destination = await made(api, agent="lithium")
    assert (destination["agent_id"], destination["agent_name"]) == (agent["id"], "Lithium")
    assert (await made(api))["agent_id"] is None
    assert_problem(
        await api.post("/destinations", json={"kind": "webhook", "address": URL, "agent": "x"}), 404
    )
    await api.delete("/agents/lithium")
    assert len((await api.get("/destinations")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("wanted", "status", "words"),
    [
        ({"address": "http://127.0.0.1/"}, 422, "127.0.0.1"),
        ({"address": "http://localhost:5432/"}, 422, "localhost"),
        ({"address": "http://169.254.169.254/"}, 422, "169.254.169.254"),
        (
            {"address": "https://user:hidden@example.org/"},
            422,
            "must not contain user and password",
        ),
        ({"address": "ftp://example.org/"}, 422, "https://"),
        ({"address": ""}, 422, "address"),
        ({"address": "https://example.org/" + "a" * 3000}, 422, "address"),
        ({"kind": "pigeon"}, 422, "kind"),
        ({"kind": "mail", "address": "nobody"}, 422, "not a mail address"),
        ({"kind": "mail", "address": "a@b.example, c@d.example"}, 422, "not a mail address"),
        ({"kind": "mail", "address": "you@example.org"}, 409, "VIGIL_SMTP_URL"),
        ({"secret": "mine"}, 422, "secret"),
    ],
)
async def test_what_cannot_be_delivered_to_is_refused(
    api: httpx.AsyncClient, wanted: dict[str, Any], status: int, words: str
) -> None:
    given = {"kind": "webhook", "address": URL, **wanted}
    answer = await api.post("/destinations", json=given)
    assert_problem(answer, status, words)
    assert "hidden" not in answer.json()["detail"]
    assert (await api.get("/destinations")).json()["items"] == []


async def test_where_private_networks_are_allowed_they_can_be_named(database_url: str) -> None:
    settings = Settings(database_url=database_url, webhook_private=True)
    async with client_of(settings) as api:
        await made(api, address="http://127.0.0.1:9000/hook")


async def test_a_mail_address_has_no_secret(mailing: httpx.AsyncClient) -> None:
    mail = await made(mailing, kind="mail", address="You <you@example.org>")
    assert (mail["address"], mail["secret"]) == ("you@example.org", None)
    assert_problem(await mailing.post(f"/destinations/{mail['id']}/rotate-secret"), 409, "webhook")


async def test_the_same_one_is_not_made_twice_nor_too_many(api: httpx.AsyncClient) -> None:
    await made(api)
    again = {"kind": "webhook", "address": URL}
    assert_problem(await api.post("/destinations", json=again), 409, "already")
    for number in range(19):
        await made(api, address=f"{URL}/{number}")
    more = {"kind": "webhook", "address": f"{URL}/more"}
    assert_problem(await api.post("/destinations", json=more), 409, "20 destinations")


async def test_a_secret_is_replaced_and_the_old_one_signs_for_a_day(
    api: httpx.AsyncClient, database: Database
) -> None:
    destination = await made(api)
    rotated = (await api.post(f"/destinations/{destination['id']}/rotate-secret")).json()
    assert rotated["secret"] != destination["secret"]
    async with database.transaction() as session:
        rows = await session.scalars(select(WebhookSecret).order_by(WebhookSecret.created_at))
        old, new = rows.all()
    assert (old.secret, new.secret) == (destination["secret"], rotated["secret"])
    assert new.expires_at is None
    assert old.expires_at is not None
    assert (old.expires_at - new.created_at).total_seconds() == pytest.approx(86_400, abs=60)
    assert rotated["previous_signs_until"]


async def test_it_is_stopped_activated_and_deleted(
    api: httpx.AsyncClient, database: Database
) -> None:
    destination = await made(api)
    path = f"/destinations/{destination['id']}"
    stopped = (await api.patch(path, json={"active": False})).json()
    assert (stopped["active"], stopped["stop_reason"]) == (False, None)
    assert_problem(await api.post(f"{path}/test"), 409, "not active")
    assert (await api.patch(path, json={"active": True})).json()["active"]
    assert_problem(await api.patch(path, json={"active": True, "kind": "mail"}), 422)
    await api.post(f"{path}/test")
    assert (await api.delete(path)).status_code == 204
    assert_problem(await api.get(path), 404)
    assert_problem(await api.delete(path), 404)
    async with database.transaction() as session:
        assert (await session.scalars(select(Delivery))).all() == []
        assert (await session.scalars(select(WebhookSecret))).all() == []


async def test_a_test_is_asked_for_and_can_be_watched(api: httpx.AsyncClient) -> None:
    destination = await made(api)
    path = f"/destinations/{destination['id']}"
    answer = await api.post(f"{path}/test")
    asked = answer.json()
    assert (answer.status_code, asked["status"], asked["inbox_item_id"]) == (202, "pending", None)
    assert (await api.get(f"{path}/deliveries/{asked['id']}")).json() == asked
    assert (await api.get(path)).json()["last_delivery"]["id"] == asked["id"]


async def test_deliveries_are_told_page_by_page(api: httpx.AsyncClient, database: Database) -> None:
    await created(api, name="Lithium")
    destination = await made(api)
    await make_items(database, await row_of(database, "Lithium"), 5)
    await dispatched(database)
    path = f"/destinations/{destination['id']}/deliveries"
    pages, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(path, params=params)).json()
        pages.append([each["id"] for each in page["items"]])
        if (cursor := page["next"]) is None:
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({each for page in pages for each in page}) == 5
    (first, *_) = (await api.get(path, params={"status": "pending"})).json()["items"]
    assert first["title"] == "HOLD: Wait for Müller"
    assert (await api.get(path, params={"status": "failed"})).json()["items"] == []
    assert_problem(await api.get(path, params={"status": "lost"}), 422)
    assert_problem(await api.get(path, params={"cursor": "x"}), 422)


async def test_one_that_failed_is_retried(api: httpx.AsyncClient, database: Database) -> None:
    await created(api, name="Lithium")
    destination = await made(api)
    await make_items(database, await row_of(database, "Lithium"))
    await dispatched(database)
    path = f"/destinations/{destination['id']}/deliveries"
    (delivery,) = (await api.get(path)).json()["items"]
    assert_problem(await api.post(f"{path}/{delivery['id']}/retry"), 409, "pending")
    await fail_all(database)
    answer = await api.post(f"{path}/{delivery['id']}/retry")
    assert (answer.status_code, answer.json()["status"]) == (202, "failed")
    assert answer.json()["retry_requested_at"]
    async with database.transaction() as session:
        await deliveries.reset_retried(session)
    again = (await api.get(f"{path}/{delivery['id']}")).json()
    assert (again["status"], again["attempts"], again["id"]) == ("pending", 0, delivery["id"])
    assert_problem(await api.post(f"{path}/{uuid4()}/retry"), 404)


async def test_what_is_anothers_is_not_there(
    api: httpx.AsyncClient, database: Database, database_url: str
) -> None:
    agent = await created(api, name="Lithium")
    mine, other_one = await made(api), await made(api, address=f"{URL}/2")
    asked = (await api.post(f"/destinations/{mine['id']}/test")).json()
    path = f"/destinations/{mine['id']}"
    async with client_of(Settings(database_url=database_url, owner="stranger")) as stranger:
        assert (await stranger.get("/destinations")).json()["items"] == []
        for method, rest, body in (
            ("GET", "", None),
            ("PATCH", "", {"active": False}),
            ("DELETE", "", None),
            ("POST", "/test", None),
            ("POST", "/rotate-secret", None),
            ("GET", "/deliveries", None),
            ("GET", f"/deliveries/{asked['id']}", None),
            ("POST", f"/deliveries/{asked['id']}/retry", None),
        ):
            assert_problem(await stranger.request(method, f"{path}{rest}", json=body), 404)
        given = {"kind": "webhook", "address": URL, "agent": agent["id"]}
        assert_problem(await stranger.post("/destinations", json=given), 404)
        await made(stranger)
    assert_problem(await api.get(f"/destinations/{other_one['id']}/deliveries/{asked['id']}"), 404)
    assert (await api.get(path)).json()["active"]


async def test_why_it_was_stopped_is_told(api: httpx.AsyncClient, database: Database) -> None:
    destination = await made(api)
    async with database.transaction() as session:
        await destinations.stop(session, UUID(destination["id"]), "410")
    path = f"/destinations/{destination['id']}"
    assert (await api.get(path)).json()["stop_reason"] == "410"
    assert (await api.patch(path, json={"active": True})).json()["stop_reason"] is None
