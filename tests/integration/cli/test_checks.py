"""`vigil doctor` and the context of a server; `vigil upgrade` and `vigil migrate` on lost streams and newer tables."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import make_url, text
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from cli.config.providers import Providers
from cli.doctor import check_model_server, check_named_provider
from cli.findings import Finding, Verdict
from cli.upgrade import examine_upgrade
from shared.database import migrate
from shared.database.engine import Database
from shared.errors import PermanentError
from shared.events.stream_admin import stream_exists
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision
from shared.runtime.settings import ModelProvider, Settings
from tests.support.case_files import read_cases
from tests.support.sandbox.server import running_app

CASES = read_cases(__file__)


@asynccontextmanager
async def serving(
    *, listed: dict[str, Any], props: dict[str, Any] | None = None, stated: int | None = None
) -> AsyncIterator[Settings]:
    async def models(_: Request) -> Response:
        return JSONResponse({"data": [{"id": "local", **listed}]})

    async def properties(_: Request) -> Response:
        return JSONResponse(props or {}, 200 if props else 404)

    async def health(_: Request) -> Response:
        return JSONResponse({})

    routes = [Route("/v1/models", models), Route("/props", properties), Route("/health", health)]
    async with running_app(Starlette(routes=routes)) as url:
        yield Settings(
            openai_api_key=SecretStr("any"),
            openai_base_url=f"{url}/v1",
            model="local",
            model_context_tokens=stated,
        )


@pytest.mark.parametrize(("model", "provider", "faults"), CASES["each_provider_is_checked"])
async def test_each_provider_is_checked(model: str, provider: str, faults: dict[str, str]) -> None:
    async with serving(listed={}) as settings:
        url = "http://u:sEcReT@127.0.0.1:1/v1" if provider == "away" else settings.openai_base_url
        assert url is not None
        settings = settings.model_copy(
            update={"model": model, "providers": {provider: ModelProvider(base_url=url)}}
        )
        named = await asyncio.to_thread(check_named_provider, settings, provider)
        findings = [await finding(settings), named]
    bad = {each.name: each.message for each in findings if each.verdict is Verdict.BAD}
    assert bad.keys() == faults.keys()
    assert all(faults[name] in bad[name] for name in faults)
    assert "sEcReT" not in str(findings)


LLAMA = {"default_generation_settings": {"n_ctx": 16_384}}


async def finding(settings: Settings) -> Finding:
    providers = Providers.from_settings(settings, None)
    return await asyncio.to_thread(check_model_server, settings, providers)


@pytest.mark.parametrize(
    ("listed", "props", "stated", "verdict"),
    [
        ({"max_model_len": 16_384}, None, None, Verdict.BAD),
        ({"max_model_len": 16_384}, None, 32_768, Verdict.BAD),
        ({"max_model_len": 16_384}, None, 16_384, Verdict.GOOD),
        ({"max_model_len": 131_072}, None, None, Verdict.GOOD),
        ({}, LLAMA, None, Verdict.BAD),
        ({}, LLAMA, 16_384, Verdict.GOOD),
        ({}, None, None, Verdict.GOOD),
        ({"max_model_len": "long"}, {"default_generation_settings": []}, None, Verdict.GOOD),
    ],
)
async def test_the_context_of_the_server_is_compared(
    listed: dict[str, Any], props: dict[str, Any] | None, stated: int | None, verdict: Verdict
) -> None:
    async with serving(listed=listed, props=props, stated=stated) as settings:
        found = await finding(settings)
    assert found.verdict == verdict
    if verdict is Verdict.BAD:
        assert "VIGIL_MODEL_CONTEXT_TOKENS=16384" in found.fix


COMPATIBLE = (
    """comment on table alembic_version is '{"migrated_by": "99.1.0", "oldest_reader": "0.3.0"}'"""
)


async def examine(settings: Settings) -> list[Finding]:
    return await asyncio.to_thread(lambda: list(examine_upgrade(settings)))


async def test_a_missing_stream_is_noted_and_created(settings: Settings, bus: Bus) -> None:
    await bus.jetstream.delete_stream(STREAM)
    findings = await examine(settings)
    assert [each.verdict for each in findings if each.name == "nats"] == [Verdict.NOTE]
    assert [each for each in findings if each.verdict is Verdict.BAD] == []
    await provision(settings)
    assert await stream_exists(bus.jetstream)


async def test_a_consumer_with_other_settings_is_noted(settings: Settings, bus: Bus) -> None:
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    findings = await examine(settings)
    assert [each.verdict for each in findings if each.name == "consumer"] == [Verdict.NOTE]


async def test_a_nats_that_is_away_stops_the_upgrade(settings: Settings) -> None:
    away = settings.model_copy(update={"nats_url": "nats://127.0.0.1:1"})
    findings = await examine(away)
    assert [each.verdict for each in findings if each.name == "nats"] == [Verdict.BAD]


async def test_no_password_is_shown(settings: Settings) -> None:
    for port in (1, make_url(settings.nats_url).port):
        url = f"nats://me:sEcReT@127.0.0.1:{port}"
        named = settings.model_copy(update={"nats_url": url})
        findings = await examine(named)
        assert any(f"127.0.0.1:{port}" in each.message for each in findings if each.name == "nats")
        assert "sEcReT" not in str(findings)


async def test_a_certificate_that_cannot_be_read_is_named(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    for name in ("missing.pem", "junk.pem"):
        named = settings.model_copy(
            update={"nats_url": "tls://127.0.0.1:1", "nats_ca_file": tmp_path / name}
        )
        findings = await examine(named)
        [bad] = [each for each in findings if each.verdict is Verdict.BAD]
        assert "a certificate for NATS is unusable" in bad.message


async def test_a_postgres_that_accepts_and_is_silent_is_waited_for_shortly(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "INSPECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/vigil"
        silent = settings.model_copy(update={"database_url": url})
        async with asyncio.timeout(30):
            findings = await examine(silent)
    assert [each.name for each in findings if each.verdict is Verdict.BAD] == ["postgres"]


PENDING = "update alembic_version set version_num = '0027'"


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        (f"{PENDING}; alter database {{name}} set default_transaction_read_only = on", "read-only"),
        (f"{PENDING}; alter table agents owner to {{role}}", "does not own the tables: agents"),
        ("insert into alembic_version values ('0001')", "has 2 rows"),
        ("delete from alembic_version", "does not say of which version"),
    ],
)
async def test_a_database_that_cannot_be_migrated_stops_the_upgrade(
    settings: Settings, database: Database, statement: str, why: str
) -> None:
    owner = "migrating_without_rights"
    name = make_url(settings.database_url).database
    async with database.transaction() as session:
        exists = await session.scalar(text(f"select to_regrole('{owner}') is not null"))
        if not exists:
            await session.execute(text(f"create role {owner} login password 'p'"))
        await session.execute(text(f"grant all on all tables in schema public to {owner}"))
        await session.execute(text(f"grant create on schema public to {owner}"))
        user = await session.scalar(text("select current_user"))
        for each in statement.format(name=name, role=user).split(";"):
            await session.execute(text(each))
    role = make_url(settings.database_url).set(username=owner, password="p")
    url = role if "own" in why else make_url(settings.database_url)
    migrating = settings.model_copy(
        update={"database_url": url.render_as_string(hide_password=False)}
    )
    findings = await examine(migrating)
    [bad] = [each for each in findings if each.verdict is Verdict.BAD]
    assert why in bad.message
    if why == "read-only":
        with pytest.raises(PermanentError, match="does not let this role change the tables"):
            await provision(migrating)


async def test_a_missing_key_stops_the_upgrade_before_anything_is_changed(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    async with database.transaction() as session:
        for each in PENDING.split(";"):
            await session.execute(text(each))
    keyed = settings.model_copy(update={"keys_dir": tmp_path})
    findings = await examine(keyed)
    assert [each.name for each in findings if each.verdict is Verdict.BAD] == ["keys"]
    with pytest.raises(PermanentError, match="vigil keys"):
        await provision(keyed)
    async with database.transaction() as session:
        assert await session.scalar(text("select version_num from alembic_version")) == "0027"


async def test_an_older_version_leaves_a_newer_stream_alone_and_creates_a_missing_one(
    settings: Settings, database: Database, bus: Bus
) -> None:
    async with database.transaction() as session:
        await session.execute(text("update alembic_version set version_num = '9999'"))
        await session.execute(text(COMPATIBLE))
    await bus.jetstream.delete_consumer(STREAM, "researcher")
    assert (await provision(settings)).is_newer
    consumers = await bus.jetstream.consumers_info(STREAM)
    assert "researcher" not in {each.name for each in consumers}
    await bus.jetstream.delete_stream(STREAM)
    assert (await provision(settings)).is_newer
    consumers = await bus.jetstream.consumers_info(STREAM)
    assert "researcher" in {each.name for each in consumers}
