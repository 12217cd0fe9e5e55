"""Destinations over HTTP: created with a secret that is returned once, tested, stopped and deleted."""

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
from tests.support.api.clients import assert_problem, create_agent, create_client
from tests.support.api.rows import get_agent
from tests.support.notifier.rows import make_items

URL = "https://hooks.example.org/vigil"
MAIL: dict[str, Any] = {"smtp_url": "smtp://127.0.0.1:1", "mail_from": "vigil@example.org"}


async def create_destination(api: httpx.AsyncClient, **params: Any) -> dict[str, Any]:
    response = await api.post("/destinations", json={"kind": "webhook", "address": URL, **params})
    assert response.status_code == 201, response.text
    destination: dict[str, Any] = response.json()
    return destination


@pytest.fixture
async def mail_api(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    settings = Settings.model_validate({"database_url": database_url, **MAIL})
    async with create_client(settings) as client:
        yield client


async def dispatch(database: Database) -> None:
    async with database.transaction() as session:
        await deliveries.dispatch(session, 100)


async def fail_all(database: Database) -> None:
    async with database.transaction() as session:
        leases = await deliveries.claim(
            session, "test", seconds=60, limit=100, per_destination=100, running_by_destination={}
        )
        for lease in leases:
            await deliveries.record_failed(session, lease, "the receiver answered 500", 500)


async def test_a_webhook_secret_is_returned_once(
    api: httpx.AsyncClient, database: Database
) -> None:
    destination = await create_destination(api)
    secret = destination.pop("secret")
    assert secret.startswith("whsec_")
    response = await api.get(f"/destinations/{destination['id']}")
    assert response.json() == {**destination, "deliveries": []}
    list_response = await api.get("/destinations")
    assert list_response.json() == {"items": [destination], "next": None}
    assert secret not in response.text + list_response.text
    async with database.transaction() as session:
        assert (await session.scalars(select(WebhookSecret.secret))).all() == [secret]


async def test_a_destination_can_be_limited_to_one_agent(api: httpx.AsyncClient) -> None:
    agent = await create_agent(api, name="Lithium")
    destination = await create_destination(api, agent="lithium")
    assert (destination["agent_id"], destination["agent_name"]) == (agent["id"], "Lithium")
    assert (await create_destination(api))["agent_id"] is None
    assert_problem(
        await api.post("/destinations", json={"kind": "webhook", "address": URL, "agent": "x"}), 404
    )
    await api.delete("/agents/lithium")
    assert len((await api.get("/destinations")).json()["items"]) == 1


INVALID_DESTINATIONS = [
    ({"address": "http://127.0.0.1/"}, 422, "127.0.0.1"),
    ({"address": "http://localhost:5432/"}, 422, "localhost"),
    ({"address": "http://169.254.169.254/"}, 422, "169.254.169.254"),
    (
        {"address": "https://user:hidden@example.org/"},
        422,
        "must not contain a user name or password",
    ),
    ({"address": "ftp://example.org/"}, 422, "https://"),
    ({"address": ""}, 422, "address"),
    ({"address": "https://example.org/" + "a" * 3000}, 422, "address"),
    ({"kind": "pigeon"}, 422, "kind"),
    ({"kind": "mail", "address": "nobody"}, 422, "not an email address"),
    ({"kind": "mail", "address": "a@b.example, c@d.example"}, 422, "not an email address"),
    ({"kind": "mail", "address": "you@example.org"}, 409, "VIGIL_SMTP_URL"),
    ({"secret": "mine"}, 422, "secret"),
]


async def test_an_invalid_destination_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for fields, status, words in INVALID_DESTINATIONS:
        with subtests.test(str(fields)):
            body = {"kind": "webhook", "address": URL, **fields}
            response = await api.post("/destinations", json=body)
            assert_problem(response, status, words)
            assert "hidden" not in response.json()["detail"]
            assert (await api.get("/destinations")).json()["items"] == []


async def test_private_addresses_are_accepted_where_the_settings_allow_them(
    database_url: str,
) -> None:
    settings = Settings(database_url=database_url, webhook_private=True)
    async with create_client(settings) as api:
        await create_destination(api, address="http://127.0.0.1:9000/hook")


async def test_a_mail_address_has_no_secret(mail_api: httpx.AsyncClient) -> None:
    mail = await create_destination(mail_api, kind="mail", address="You <you@example.org>")
    assert (mail["address"], mail["secret"]) == ("you@example.org", None)
    assert_problem(await mail_api.post(f"/destinations/{mail['id']}/rotate-secret"), 409, "webhook")


async def test_duplicates_and_more_than_twenty_destinations_are_rejected(
    api: httpx.AsyncClient,
) -> None:
    await create_destination(api)
    duplicate = {"kind": "webhook", "address": URL}
    assert_problem(await api.post("/destinations", json=duplicate), 409, "already")
    for number in range(19):
        await create_destination(api, address=f"{URL}/{number}")
    too_many = {"kind": "webhook", "address": f"{URL}/more"}
    assert_problem(await api.post("/destinations", json=too_many), 409, "20 destinations")


async def test_a_rotated_secret_still_signs_for_a_day(
    api: httpx.AsyncClient, database: Database
) -> None:
    destination = await create_destination(api)
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


async def test_a_destination_is_stopped_activated_and_deleted(
    api: httpx.AsyncClient, database: Database
) -> None:
    destination = await create_destination(api)
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


async def test_a_test_delivery_is_requested_and_shown(api: httpx.AsyncClient) -> None:
    destination = await create_destination(api)
    path = f"/destinations/{destination['id']}"
    response = await api.post(f"{path}/test")
    delivery = response.json()
    assert (response.status_code, delivery["status"], delivery["inbox_item_id"]) == (
        202,
        "pending",
        None,
    )
    assert (await api.get(f"{path}/deliveries/{delivery['id']}")).json() == delivery
    assert (await api.get(path)).json()["last_delivery"]["id"] == delivery["id"]


async def test_deliveries_are_paginated(api: httpx.AsyncClient, database: Database) -> None:
    await create_agent(api, name="Lithium")
    destination = await create_destination(api)
    await make_items(database, await get_agent(database, "Lithium"), 5)
    await dispatch(database)
    path = f"/destinations/{destination['id']}/deliveries"
    pages, cursor = [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(path, params=params)).json()
        pages.append([delivery["id"] for delivery in page["items"]])
        if (cursor := page["next"]) is None:
            break
    assert [len(page) for page in pages] == [2, 2, 1]
    assert len({delivery_id for page in pages for delivery_id in page}) == 5
    (first, *_) = (await api.get(path, params={"status": "pending"})).json()["items"]
    assert first["title"] == "HOLD: Wait for Müller"
    assert (await api.get(path, params={"status": "failed"})).json()["items"] == []
    assert_problem(await api.get(path, params={"status": "lost"}), 422)
    assert_problem(await api.get(path, params={"cursor": "x"}), 422)


async def test_a_failed_delivery_is_retried(api: httpx.AsyncClient, database: Database) -> None:
    await create_agent(api, name="Lithium")
    destination = await create_destination(api)
    await make_items(database, await get_agent(database, "Lithium"))
    await dispatch(database)
    path = f"/destinations/{destination['id']}/deliveries"
    (delivery,) = (await api.get(path)).json()["items"]
    assert_problem(await api.post(f"{path}/{delivery['id']}/retry"), 409, "pending")
    await fail_all(database)
    response = await api.post(f"{path}/{delivery['id']}/retry")
    assert (response.status_code, response.json()["status"]) == (202, "failed")
    assert response.json()["retry_requested_at"]
    async with database.transaction() as session:
        await deliveries.reset_retried(session)
    retried = (await api.get(f"{path}/{delivery['id']}")).json()
    assert (retried["status"], retried["attempts"], retried["id"]) == ("pending", 0, delivery["id"])
    assert_problem(await api.post(f"{path}/{uuid4()}/retry"), 404)


async def test_a_delivery_of_another_destination_is_not_found(api: httpx.AsyncClient) -> None:
    mine = await create_destination(api)
    other = await create_destination(api, address=f"{URL}/2")
    delivery = (await api.post(f"/destinations/{mine['id']}/test")).json()
    assert_problem(await api.get(f"/destinations/{other['id']}/deliveries/{delivery['id']}"), 404)


async def test_the_stop_reason_is_shown(api: httpx.AsyncClient, database: Database) -> None:
    destination = await create_destination(api)
    async with database.transaction() as session:
        await destinations.stop(session, UUID(destination["id"]), "410")
    path = f"/destinations/{destination['id']}"
    assert (await api.get(path)).json()["stop_reason"] == "410"
    assert (await api.patch(path, json={"active": True})).json()["stop_reason"] is None
