"""How credentials are stored and how often their use is recorded."""

from datetime import timedelta

from sqlalchemy import func, select, text, update

from shared.accounts import authentication, credentials
from shared.accounts.secrets import hash_secret, new_token
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Agent, ApiToken, BrowserSession, SignInLink, User
from shared.enums import AccessScope, CredentialKind
from shared.runtime.provision import provision
from shared.runtime.settings import Settings
from tests.support.factories import make_agent
from tests.support.sql_capture import captured_statements


async def test_no_table_holds_a_secret(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
        _, token = await credentials.create_token(
            session, anna, name="x", scopes=[AccessScope.READ]
        )
        links = [await credentials.create_link(session, anna) for _ in range(2)]
        session_secret = await credentials.open_session(session, links[0][1], "a browser")
        assert session_secret is not None
        rows = ""
        for table in ("users", "api_tokens", "sign_in_links", "sessions"):
            table_rows = await session.scalars(text(f"select to_jsonb(t)::text from {table} t"))
            rows += "".join(table_rows)
    for secret in (token, token[4:], session_secret, links[0][1], links[1][1]):
        assert secret not in rows


async def test_the_use_of_a_token_is_recorded_once_a_minute(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
        row, token = await credentials.create_token(
            session, anna, name="x", scopes=[AccessScope.READ]
        )
    with captured_statements() as captured:
        for _ in range(5):
            assert await _authenticate(database, CredentialKind.TOKEN, token) is not None
    statements = [sql for sql, _ in captured if sql not in ("begin", "commit")]
    assert sum(statement.startswith("UPDATE") for statement in statements) == 1
    assert len(statements) == 6
    async with database.transaction() as session:
        a_minute_ago = func.clock_timestamp() - authentication.USE_UPDATE_INTERVAL
        await session.execute(update(ApiToken).values(last_used_at=a_minute_ago))
    with captured_statements() as captured:
        caller = await _authenticate(database, CredentialKind.TOKEN, token)
    assert caller is not None
    assert (caller.credential_id, caller.scopes) == (row.id, frozenset({AccessScope.READ}))
    assert any(sql.startswith("UPDATE") for sql, _ in captured)


async def test_a_session_is_extended_up_to_its_maximum_lifetime(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
        _, link_secret = await credentials.create_link(session, anna)
        secret = await credentials.open_session(session, link_secret, "x" * 1000)
        assert secret is not None
    nearly_idle = func.clock_timestamp() - credentials.IDLE_SESSION_LIFETIME + timedelta(minutes=1)
    async with database.transaction() as session:
        await session.execute(update(BrowserSession).values(last_used_at=nearly_idle))
    assert await _authenticate(database, CredentialKind.SESSION, secret) is not None
    async with database.transaction() as session:
        row = (await session.scalars(select(BrowserSession))).one()
        assert row.ends_at - row.created_at <= credentials.MAX_SESSION_LIFETIME + timedelta(
            seconds=1
        )
        assert len(row.browser) == credentials.MAX_BROWSER_CHARS
        assert await session.scalar(
            select(BrowserSession.last_used_at > func.clock_timestamp() - timedelta(minutes=1))
        )
        await session.execute(update(BrowserSession).values(ends_at=func.clock_timestamp()))
    assert await _authenticate(database, CredentialKind.SESSION, secret) is None
    assert await _authenticate(database, CredentialKind.TOKEN, secret) is None


async def test_expired_links_and_sessions_are_deleted(database: Database) -> None:
    async with database.transaction() as session:
        anna = await agents.ensure_user(session, "anna")
        for _ in range(2):
            _, link_secret = await credentials.create_link(session, anna)
            await credentials.open_session(session, link_secret, "a browser")
            await session.execute(update(BrowserSession).values(ends_at=func.clock_timestamp()))
            await credentials.create_link(session, anna)
            await session.execute(update(SignInLink).values(expires_at=func.clock_timestamp()))
        await credentials.create_link(session, anna)
        for table in (SignInLink, BrowserSession):
            assert await session.scalar(select(func.count()).select_from(table)) == 1


async def test_an_installation_has_one_owner_token(settings: Settings) -> None:
    database = Database(settings.database_url, name="test")
    tokens = [new_token(), new_token()]
    for token in tokens:
        await provision(Settings.model_validate({**settings.model_dump(), "owner_token": token}))
    assert await _authenticate(database, CredentialKind.TOKEN, tokens[0]) is None
    caller = await _authenticate(database, CredentialKind.TOKEN, tokens[1])
    assert caller is not None
    assert (caller.name, caller.is_operator, caller.expires_at) == ("owner", True, None)
    async with database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(ApiToken)) == 1
    await database.close()


async def test_deleting_a_user_deletes_all_their_data(database: Database) -> None:
    agent = await make_agent(database)
    async with database.transaction() as session:
        await credentials.create_token(session, agent.owner_id, name="x", scopes=AccessScope)
        await credentials.delete_user(session, agent.owner_id)
        for table in (User, ApiToken, Agent):
            assert await session.scalar(select(func.count()).select_from(table)) == 0


async def _authenticate(
    database: Database, kind: CredentialKind, secret: str
) -> authentication.Caller | None:
    """Authenticates as the authentication middleware does."""
    async with database.transaction() as session:
        caller = await authentication.authenticate(session, kind, hash_secret(secret))
    if caller is not None and caller.is_use_update_due:
        async with database.transaction() as session:
            await authentication.record_use(session, caller)
    return caller
