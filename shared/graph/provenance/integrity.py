"""Seals: hashes that reveal rows that were changed outside Vigil. Pure.

A seal detects damage and edits. It is no signature: anyone who can write the row can seal it again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict

_NUMBER_ENCODER: Final = json.JSONEncoder(allow_nan=False)


def sha256(text: str | bytes) -> bytes:
    """SHA-256 of bytes, or of text in UTF-8."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).digest()


def source_seal(
    *,
    source_id: UUID,
    agent_id: UUID,
    url: str,
    title: str | None,
    published: datetime | None,
    fetched_at: datetime,
    text_sha256: bytes,
    reading: Mapping[str, Any] | None = None,
) -> bytes:
    # Pages of earlier releases have no reading, and keep their seal.
    added = () if reading is None else (reading,)
    return _seal(
        "source", source_id, agent_id, url, title, published, fetched_at, text_sha256, *added
    )


def evidence_seal(
    *,
    evidence_id: UUID,
    agent_id: UUID,
    element_id: UUID,
    source_id: UUID,
    first_byte: int,
    end_byte: int,
    quote_sha256: bytes,
    claims: Mapping[str, Any],
    valid_from: datetime | None,
    valid_to: datetime | None,
    as_of: datetime,
    learned_at: datetime,
    rules: int | None = None,
    speaker: str | None = None,
) -> bytes:
    """Seal of evidence. `element_id` is the id of the node or edge."""
    # Evidence of earlier releases was not checked by rules, and has no speaker. It keeps its seal.
    added = (rules,) if speaker is None else (rules, speaker)
    return _seal(
        "evidence",
        evidence_id,
        agent_id,
        element_id,
        source_id,
        first_byte,
        end_byte,
        quote_sha256,
        claims,
        valid_from,
        valid_to,
        as_of,
        learned_at,
        *(() if rules is None and speaker is None else added),
    )


def evidence_content(
    claims: Mapping[str, Any],
    valid_from: datetime | None,
    valid_to: datetime | None,
    speaker: str | None,
) -> str:
    """The content of evidence that its id is derived from."""
    # Evidence of earlier releases has no speaker, and keeps its id.
    added = () if speaker is None else (speaker,)
    return canonical_json([claims, valid_from, valid_to, *added])


def node_seal(
    *,
    node_id: UUID,
    agent_id: UUID,
    type_name: str,
    name: str,
    properties: Mapping[str, Any],
    evidence: Iterable[UUID],
    rules: Mapping[str, Any] | None = None,
) -> bytes:
    """Seal of a node.

    `evidence` holds the ids of all its evidence, retracted or not, in any order; conclusions have none.
    """
    return element_seal(
        "node",
        element_id=node_id,
        agent_id=agent_id,
        identity=(type_name, name),
        properties=properties,
        evidence=evidence,
        rules=rules,
    )


def edge_seal(
    *,
    edge_id: UUID,
    agent_id: UUID,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Mapping[str, Any],
    evidence: Iterable[UUID],
) -> bytes:
    """Seal of an edge; see `node_seal`. `source_id` and `target_id` are its ends."""
    return element_seal(
        "edge",
        element_id=edge_id,
        agent_id=agent_id,
        identity=(type_name, source_id, target_id),
        properties=properties,
        evidence=evidence,
    )


def element_seal(
    kind: Literal["node", "edge"],
    *,
    element_id: UUID,
    agent_id: UUID,
    identity: Iterable[Any],
    properties: Mapping[str, Any],
    evidence: Iterable[UUID],
    rules: Mapping[str, Any] | None = None,
) -> bytes:
    """Seal of a node or an edge: see `node_seal` and `edge_seal`, which name what identifies it."""
    # Facts, and conclusions of earlier releases, have no rules.
    added = () if rules is None else (rules,)
    return _seal(kind, element_id, agent_id, *identity, properties, sorted(evidence), *added)


def canonical_json(value: Any) -> str:
    """Canonical JSON, also of values read back from PostgreSQL: sorted keys, no spaces, 1.0 as 1."""
    return _WRITERS.get(type(value), _write_inherited)(value)


def is_equal(value: Any, other_value: Any) -> bool:
    """Whether both have the same canonical JSON."""
    return canonical_json(value) == canonical_json(other_value)


def _seal(*parts: Any) -> bytes:
    return sha256(canonical_json(parts))


def _list(values: Iterable[Any]) -> str:
    written = [_WRITERS.get(type(value), _write_inherited)(value) for value in values]
    return f"[{','.join(written)}]"


def _object(values: Mapping[str, Any]) -> str:
    inner = [f"{_string(key)}:{canonical_json(values[key])}" for key in sorted(values)]
    return f"{{{','.join(inner)}}}"


def _moment(value: datetime) -> str:
    return f'"{value.astimezone(UTC).isoformat(timespec="microseconds")}"'


def _number(value: float) -> str:
    # By its decimal digits: PostgreSQL returns 6.02e23 as that integer, which is not the float's exact value.
    return str(int(Decimal(repr(value)))) if value.is_integer() else _NUMBER_ENCODER.encode(value)


_string: Final = json.encoder.encode_basestring
_WRITERS: Final[dict[type, Callable[[Any], str]]] = {
    str: _string,
    int: str,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
    float: _number,
    UUID: lambda value: f'"{value!s}"',
    bytes: lambda value: f'"{value.hex()}"',
    datetime: _moment,
    dict: _object,
    list: _list,
    tuple: _list,
    Mapping: _object,
}
"""By type. A million rows have some ten million seals, and a new encoder for each is slower than the encoding."""


def _write_inherited(value: Any) -> str:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"{type(value).__name__} has no canonical JSON")


Json = dict[str, Any]


class Row(BaseModel):
    """JSON form: bytes in hex, times in ISO 8601."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", ser_json_bytes="hex", val_json_bytes="hex"
    )

    @classmethod
    @cache
    def _all_fields(cls) -> set[str]:
        return set(cls.__pydantic_fields__)

    @classmethod
    def from_columns(cls, values: Iterable[Any]) -> Self:
        """From the values of all fields in their order, which are not validated.

        As `model_construct` with all fields, in a fifth of its time.
        """
        row = cls.__new__(cls)
        fields = dict(zip(cls.__pydantic_fields__, values, strict=True))
        for name, value in (
            ("__dict__", fields),
            ("__pydantic_fields_set__", cls._all_fields()),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(row, name, value)
        return row


class SourceRow(Row):
    """A source without its text, which can be long."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    sha256: bytes
    reading: Json | None = None
    seal: bytes
    retracted_at: datetime | None
    retraction_reason: str | None

    def sealed(self, agent_id: UUID) -> bytes:
        """The seal that matches the row's content."""
        return source_seal(
            source_id=self.id,
            agent_id=agent_id,
            url=self.url,
            title=self.title,
            published=self.published,
            fetched_at=self.fetched_at,
            text_sha256=self.sha256,
            reading=self.reading,
        )


class EvidenceRow(Row):
    id: UUID
    element_id: UUID
    source_id: UUID
    first_byte: int
    end_byte: int
    quote_sha256: bytes
    claims: Json
    valid_from: datetime | None
    valid_to: datetime | None
    as_of: datetime
    learned_at: datetime
    rules: int | None = None
    speaker: str | None = None
    seal: bytes

    @property
    def content_key(self) -> str:
        """See `evidence_content`."""
        return evidence_content(self.claims, self.valid_from, self.valid_to, self.speaker)

    def sealed(self, agent_id: UUID) -> bytes:
        return evidence_seal(
            evidence_id=self.id,
            agent_id=agent_id,
            element_id=self.element_id,
            source_id=self.source_id,
            first_byte=self.first_byte,
            end_byte=self.end_byte,
            quote_sha256=self.quote_sha256,
            claims=self.claims,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            as_of=self.as_of,
            learned_at=self.learned_at,
            rules=self.rules,
            speaker=self.speaker,
        )


class NodeRow(Row):
    id: UUID
    type: str
    name: str
    properties: Json
    rules: Json | None = None
    seal: bytes | None
    created_at: datetime
    updated_at: datetime

    def sealed(self, agent_id: UUID, evidence: Sequence[UUID]) -> bytes:
        return node_seal(
            node_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            name=self.name,
            properties=self.properties,
            evidence=evidence,
            rules=self.rules,
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
        return edge_seal(
            edge_id=self.id,
            agent_id=agent_id,
            type_name=self.type,
            source_id=self.source_id,
            target_id=self.target_id,
            properties=self.properties,
            evidence=evidence,
        )


ThingRow = NodeRow | EdgeRow
