"""Contexts that phases were given, each stored as its difference from an earlier one of the agent.

The contexts of an agent are long and mostly the same. A difference is a DEFLATE stream (RFC 1951) whose preset dictionary
is the earlier text, so it is as long as what is new in it.
"""

import zlib
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from uuid import UUID
from weakref import WeakKeyDictionary

from shared.database.engine import Database
from shared.database.statements import CompiledStatement, Executor, uuid_array
from shared.errors import PermanentError

Key = tuple[UUID, bytes]
"""The agent, and the SHA-256 of the text in UTF-8."""

MAX_DEPTH: Final = 15
"""Differences between a text and the nearest one that is stored in full."""
_MAX_REMEMBERED: Final = 256
"""Agents whose last context a process remembers."""
_WINDOW_BYTES: Final = 32_768
"""Of a dictionary, DEFLATE uses the end."""
_RAW: Final = -zlib.MAX_WBITS
_CHAINS: Final = CompiledStatement("""
with recursive chain as (
  select contexts.agent_id, contexts.sha256, contexts.base_sha256, contexts.data
  from unnest(cast(:agents as uuid[]), cast(:hashes as bytea[])) as wanted (agent_id, sha256)
  join contexts on contexts.agent_id = wanted.agent_id and contexts.sha256 = wanted.sha256
  union
  select base.agent_id, base.sha256, base.base_sha256, base.data
  from chain
  join contexts as base on base.agent_id = chain.agent_id and base.sha256 = chain.base_sha256
)
select agent_id, sha256, base_sha256, data from chain
""")


class UnreadableContextError(PermanentError):
    """A stored context, or one that it is a difference from, is missing or changed."""

    def __init__(self, key: Key) -> None:
        super().__init__(
            "unreadable_context",
            f"the context {key[1].hex()} of agent {key[0]} is missing or was changed in the database",
        )


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
    """The last context of an agent that this process has committed."""

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


def in_full(text: str) -> StoredContext:
    return StoredContext(_hash(text.encode()), compress(text))


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
    return StoredContext(_hash(encoded), compress(text, base.text), base.sha256, base.depth + 1)


def remember(database: Database, agent_id: UUID, text: str, stored: StoredContext) -> None:
    """Remembers a context whose row this process has committed."""
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
    rows = {
        (row.agent_id, row.sha256): (row.base_sha256, row.data)
        for row in await _CHAINS.rows(executor, params)
    }
    texts: dict[Key, str] = {}
    for key in keys:
        _read(rows, texts, key)
    return {key: texts[key] for key in keys}


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
    if _hash(text.encode()) != key[1]:
        raise UnreadableContextError(key)
    texts[key] = text
    return text


def _hash(text: bytes) -> bytes:
    return sha256(text).digest()
