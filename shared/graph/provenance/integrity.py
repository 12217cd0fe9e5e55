"""Seals: hashes that show whether a row was changed by anyone but Vigil. Pure.

A seal finds what was damaged or edited; it is no signature. Who can write any row can seal it anew.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict

_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def sha256(text: str | bytes) -> bytes:
    """Of bytes, or of text in UTF-8."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).digest()


def of_source(
    *,
    source_id: UUID,
    agent_id: UUID,
    url: str,
    title: str | None,
    published: datetime | None,
    fetched_at: datetime,
    text_sha256: bytes,
) -> bytes:
    return _seal("source", source_id, agent_id, url, title, published, fetched_at, text_sha256)


def of_evidence(
    *,
    evidence_id: UUID,
    agent_id: UUID,
    thing_id: UUID,
    source_id: UUID,
    first_byte: int,
    end_byte: int,
    quote_sha256: bytes,
    claims: Mapping[str, Any],
    valid_from: datetime | None,
    valid_to: datetime | None,
    as_of: datetime,
    learned_at: datetime,
) -> bytes:
    """`thing_id` is the node's or edge's."""
    return _seal(
        "evidence",
        evidence_id,
        agent_id,
        thing_id,
        source_id,
        first_byte,
        end_byte,
        quote_sha256,
        claims,
        valid_from,
        valid_to,
        as_of,
        learned_at,
    )


def of_node(
    *,
    node_id: UUID,
    agent_id: UUID,
    type_name: str,
    name: str,
    properties: Mapping[str, Any],
    evidence: Iterable[UUID],
) -> bytes:
    """`evidence` is all that there is of it, retracted or not, in any order. Conclusions have none."""
    return _seal("node", node_id, agent_id, type_name, name, properties, sorted(evidence))


def of_edge(
    *,
    edge_id: UUID,
    agent_id: UUID,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Mapping[str, Any],
    evidence: Iterable[UUID],
) -> bytes:
    """As `of_node`; `source_id` and `target_id` are its ends."""
    return _seal(
        "edge", edge_id, agent_id, type_name, source_id, target_id, properties, sorted(evidence)
    )


def canonical(value: Any) -> str:
    """JSON in one spelling, also of what PostgreSQL gives back: sorted keys, no blanks, 1.0 as 1."""
    write = _WRITERS.get(type(value))
    return _ENCODER.encode(_plain(value)) if write is None else write(value)


def _seal(*parts: Any) -> bytes:
    return sha256(canonical(parts))


def _list(values: Iterable[Any]) -> str:
    return f"[{','.join(map(canonical, values))}]"


def _object(values: dict[Any, Any]) -> str:
    if not all(type(key) is str for key in values):
        return _ENCODER.encode(_plain(values))
    inner = (f"{_string(key)}:{canonical(values[key])}" for key in sorted(values))
    return f"{{{','.join(inner)}}}"


def _moment(value: datetime) -> str:
    return f'"{value.astimezone(UTC).isoformat(timespec="microseconds")}"'


def _number(value: float) -> str:
    # By its digits: 6.02e23 is given back as a whole number of that many, which is not the nearest power of two's.
    return str(int(Decimal(repr(value)))) if value.is_integer() else _ENCODER.encode(value)


_string: Final = json.encoder.encode_basestring
_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    str: _string,
    int: str,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
    float: _number,
    UUID: lambda value: f'"{value}"',
    bytes: lambda value: f'"{value.hex()}"',
    datetime: _moment,
    dict: _object,
    list: _list,
    tuple: _list,
}
"""By exact type. A million rows have some ten million seals: an encoder set up for each takes longer than what it writes."""


def _plain(value: Any) -> Any:
    """What `_WRITERS` does not know, as what JSON has."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and value.is_integer():
        return int(Decimal(repr(value)))
    return value


Json = dict[str, Any]


class Row(BaseModel):
    """As JSON: bytes in hex, moments in ISO 8601."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"
    )


class SourceRow(Row):
    """Without its text, which can be long."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    sha256: bytes
    seal: bytes
    retracted_at: datetime | None
    retracted_because: str | None

    def sealed(self, agent_id: UUID) -> bytes:
        """The seal that it should have."""
        return of_source(
            source_id=self.id,
            agent_id=agent_id,
            url=self.url,
            title=self.title,
            published=self.published,
            fetched_at=self.fetched_at,
            text_sha256=self.sha256,
        )


class EvidenceRow(Row):
    id: UUID
    thing_id: UUID
    source_id: UUID
    first_byte: int
    end_byte: int
    quote_sha256: bytes
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    as_of: datetime
    learned_at: datetime
    seal: bytes

    @property
    def says(self) -> str:
        """As its id has it."""
        return canonical([self.claims, self.valid_from, self.valid_to])

    def sealed(self, agent_id: UUID) -> bytes:
        return of_evidence(
            evidence_id=self.id,
            agent_id=agent_id,
            thing_id=self.thing_id,
            source_id=self.source_id,
            first_byte=self.first_byte,
            end_byte=self.end_byte,
            quote_sha256=self.quote_sha256,
            claims=self.claims,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            as_of=self.as_of,
            learned_at=self.learned_at,
        )


class NodeRow(Row):
    id: UUID
    type: str
    name: str
    properties: Json
    seal: bytes | None
    created_at: datetime
    updated_at: datetime

    def sealed(self, agent_id: UUID, evidence: Sequence[UUID]) -> bytes:
        return of_node(
            node_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            name=self.name,
            properties=self.properties,
            evidence=evidence,
        )


class EdgeRow(Row):
    id: UUID
    type: str
    source_id: UUID
    target_id: UUID
    properties: Json
    seal: bytes | None
    created_at: datetime
    updated_at: datetime

    def sealed(self, agent_id: UUID, evidence: Sequence[UUID]) -> bytes:
        return of_edge(
            edge_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            source_id=self.source_id,
            target_id=self.target_id,
            properties=self.properties,
            evidence=evidence,
        )


ThingRow = NodeRow | EdgeRow
