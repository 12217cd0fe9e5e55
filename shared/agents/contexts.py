"""Contexts that phases were given, each stored as its difference from an earlier one of the agent, and the contexts that
are pinned for steps which are requested together.

The contexts of an agent are long and mostly the same. A difference is a DEFLATE stream (RFC 1951) whose preset dictionary
is the earlier text, so it is as long as what is new in it.
"""

import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    Executor,
    Row,
    uuid_array,
)
from shared.errors import PermanentError, RetrySoonError

Key = tuple[UUID, bytes]
"""The agent, and the SHA-256 of the text in UTF-8."""

MAX_DEPTH: Final = 15
"""Differences between a text and the nearest one that is stored in full."""
_MAX_REMEMBERED: Final = 256
"""Agents whose last context a process remembers."""
_WINDOW_BYTES: Final = 32_768
"""Length of the end of a dictionary that DEFLATE uses."""
_RAW: Final = -zlib.MAX_WBITS


def _chains(wanted_sql: str, known_sql: str = "null") -> CompiledStatement:
    """Reads the wanted contexts and those that they are differences from, as far as the known one."""
    return CompiledStatement(f"""
with recursive chain as (
  select wanted.agent_id, wanted.sha256, stored.base_sha256, stored.depth, stored.data,
    true as is_wanted
  from ({wanted_sql}) as wanted
  left join contexts as stored
    on stored.agent_id = wanted.agent_id and stored.sha256 = wanted.sha256
  union
  select base.agent_id, base.sha256, base.base_sha256, base.depth, base.data, false
  from chain
  join contexts as base on base.agent_id = chain.agent_id and base.sha256 = chain.base_sha256
  where chain.sha256 is distinct from cast({known_sql} as bytea)
)
select agent_id, sha256, base_sha256, depth, data, is_wanted from chain
""")


_BY_KEYS: Final = _chains(
    "select * from unnest(cast(:agents as uuid[]), cast(:hashes as bytea[])) as each (agent_id, sha256)"
)
_IS_PINNED_SQL: Final = "iteration_id = :iteration_id and kind = :kind and round = :round"
_PINNED: Final = _chains(
    f"select agent_id, sha256 from pinned_contexts where {_IS_PINNED_SQL}"
    " and (agent_id = (select id from agents where id = :agent_id and (owner_id = :owner_id) is true)) is true",
    ":known_sha256",
)
# It does not see a pin for which it has waited. Then the commit is forbidden, and the next attempt sees it.
_PIN: Final = CompiledStatement(f"""
with pinned as (
  insert into pinned_contexts (iteration_id, kind, round, agent_id, sha256)
  values (:iteration_id, :kind, :round, :agent_id, :sha256) on conflict do nothing
  returning sha256
)
select sha256, case when :strict and sha256 is distinct from :sha256 then forbid_commit() end as is_undone
from (values (1)) as once left join (
  select sha256 from pinned union all select sha256 from pinned_contexts where {_IS_PINNED_SQL}
) as known on true
""")


class UnreadableContextError(PermanentError):
    """A stored context, or one that it is a difference from, is missing or changed."""

    def __init__(self, key: Key) -> None:
        super().__init__(
            "unreadable_context",
            f"the context {key[1].hex()} of agent {key[0]} is missing or was changed in the database",
        )


class StepGroup(NamedTuple):
    """Steps that are requested together, and are given the same context."""

    iteration_id: UUID
    kind: str
    round: int


@dataclass(frozen=True)
class StoredContext:
    """A context in the form in which it is stored."""

    sha256: bytes
    data: bytes | None
    """None if it is stored already."""
    base_sha256: bytes | None = None
    depth: int = 0

    @property
    def required_sha256(self) -> bytes | None:
        """The context that must be stored already, if any."""
        return self.sha256 if self.data is None else self.base_sha256


@dataclass(frozen=True)
class _Remembered:
    """The last context of an agent that this process has committed, or read."""

    sha256: bytes
    text: bytes
    depth: int


_memories: "WeakKeyDictionary[Database, OrderedDict[UUID, _Remembered]]" = WeakKeyDictionary()


def compress(text: str, dictionary: bytes = b"") -> bytes:
    """Compress a text; what it has in common with the dictionary takes no space."""
    window = dictionary[-_WINDOW_BYTES:]
    compressor = (
        zlib.compressobj(wbits=_RAW, zdict=window) if window else zlib.compressobj(wbits=_RAW)
    )
    return compressor.compress(text.encode()) + compressor.flush()


def decompress(data: bytes, dictionary: bytes = b"") -> str:
    """The text of `compress` with the same dictionary. Raises zlib.error."""
    window = dictionary[-_WINDOW_BYTES:]
    decompressor = (
        zlib.decompressobj(wbits=_RAW, zdict=window) if window else zlib.decompressobj(wbits=_RAW)
    )
    return (decompressor.decompress(data) + decompressor.flush()).decode()


def hash_text(text: str) -> bytes:
    return sha256(text.encode()).digest()


def in_full(text: str) -> StoredContext:
    return StoredContext(hash_text(text), compress(text))


def as_difference(database: Database, agent_id: UUID, text: str) -> StoredContext:
    """The shortest form, as far as this process remembers the agent's last context; else `in_full`.

    Whoever stores it must check that the required context is stored.
    """
    encoded = text.encode()
    memory = _memories.get(database)
    base = None if memory is None else memory.get(agent_id)
    if base is None:
        return in_full(text)
    if base.text == encoded:
        return StoredContext(base.sha256, None)
    if base.depth >= MAX_DEPTH:
        return in_full(text)
    return StoredContext(hash_text(text), compress(text, base.text), base.sha256, base.depth + 1)


def remember(database: Database, agent_id: UUID, text: str, stored: StoredContext) -> None:
    """Remembers a context whose row is committed."""
    memory = _memories.setdefault(database, OrderedDict())
    memory[agent_id] = _Remembered(stored.sha256, text.encode(), stored.depth)
    memory.move_to_end(agent_id)
    while len(memory) > _MAX_REMEMBERED:
        memory.popitem(last=False)


async def load_texts(executor: Executor, keys: Collection[Key]) -> dict[Key, str]:
    """The texts of stored contexts. Raises UnreadableContextError."""
    if not keys:
        return {}
    params = {
        "agents": uuid_array(agent_id for agent_id, _ in keys),
        "hashes": [digest for _, digest in keys],
    }
    rows = _by_key(await _BY_KEYS.rows(executor, params))
    texts: dict[Key, str] = {}
    for key in keys:
        _read(rows, texts, key)
    return {key: texts[key] for key in keys}


def pinned_text(
    database: Database, owner_id: UUID, agent_id: UUID, group: StepGroup
) -> BoundQuery[str | None]:
    """The text that is pinned for the steps, or None. Its `read` raises UnreadableContextError.

    Reads only the differences from the agent's last context, if this process remembers it. Run it outside of a
    transaction that writes contexts.
    """
    memory = _memories.get(database)
    known = None if memory is None else memory.get(agent_id)

    def read(rows: list[Row]) -> str | None:
        pinned = next((row for row in rows if row.is_wanted), None)
        if pinned is None:
            return None
        texts = {} if known is None else {(agent_id, known.sha256): known.text.decode()}
        text = _read(_by_key(rows), texts, (agent_id, pinned.sha256))
        stored = StoredContext(pinned.sha256, None, depth=pinned.depth)
        remember(database, agent_id, text, stored)
        return text

    params = {
        **group._asdict(),
        "agent_id": agent_id,
        "owner_id": owner_id,
        "known_sha256": None if known is None else known.sha256,
    }
    return BoundQuery(_PINNED, params, read)


def pinning(group: StepGroup, agent_id: UUID, sha256: bytes) -> BoundQuery[None]:
    """Pins a context that is stored, unless one is pinned for these steps.

    Forbids to commit unless this one is pinned then. Its `read` raises RetrySoonError.
    """

    def read(rows: list[Row]) -> None:
        if rows[0].sha256 != sha256:
            raise RetrySoonError("another worker has pinned a different context for this step")

    params = {**group._asdict(), "agent_id": agent_id, "sha256": sha256, STRICT: False}
    return BoundQuery(_PIN, params, read)


def _by_key(rows: Iterable[Row]) -> dict[Key, tuple[bytes | None, bytes]]:
    return {
        (row.agent_id, row.sha256): (row.base_sha256, row.data)
        for row in rows
        if row.data is not None
    }


def _read(rows: dict[Key, tuple[bytes | None, bytes]], texts: dict[Key, str], key: Key) -> str:
    if key in texts:
        return texts[key]
    try:
        base_sha256, data = rows.pop(key)
        dictionary = b""
        if base_sha256 is not None:
            dictionary = _read(rows, texts, (key[0], base_sha256)).encode()
        text = decompress(data, dictionary)
    except (KeyError, zlib.error, UnicodeDecodeError) as error:
        raise UnreadableContextError(key) from error
    if hash_text(text) != key[1]:
        raise UnreadableContextError(key)
    texts[key] = text
    return text
