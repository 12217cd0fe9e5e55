"""Migration sets up pgvector where it can; where it cannot, it continues and reports that."""

import psycopg
import pytest

from shared.database import migrate, pgvector

WITHOUT_LIBRARY = """
create function refuse() returns event_trigger language plpgsql as $$
begin raise exception 'could not access file "$libdir/vector"' using errcode = '58P01'; end $$;
create event trigger refusing on ddl_command_start when tag in ('CREATE EXTENSION')
execute function refuse()
"""


def test_a_server_whose_pgvector_cannot_be_loaded_is_migrated_without_it(
    database_url: str,
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("drop extension vector cascade")
        connection.execute(WITHOUT_LIBRARY)
    warning = migrate.upgrade(database_url).problem
    assert warning is not None
    assert "embedding search is off" in warning
    assert "$libdir/vector" in warning


def test_a_long_transaction_does_not_block_a_migration(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pgvector, "LOCK_TIMEOUT_SECONDS", 0.2)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"drop index {pgvector.INDEX}")
    with psycopg.connect(database_url) as writer:
        writer.execute("lock table node_embeddings in row exclusive mode")
        warning = migrate.upgrade(database_url).problem
    assert warning is not None
    assert "has no index" in warning
    assert not _has_valid_index(database_url)
    assert migrate.upgrade(database_url).problem is None
    assert _has_valid_index(database_url)


def _has_valid_index(url: str) -> bool:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select exists (select from pg_index where indexrelid = to_regclass(%s) and indisvalid)",
            [pgvector.INDEX],
        ).fetchone()
    return row == (True,)
