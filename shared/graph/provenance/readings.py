"""Claims that a model reads with their quotes, in words, and its verdicts on them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, json_text
from shared.enums import Entailment
from shared.graph.grounding.quotes import last_moment
from shared.graph.grounding.sentences import find_sentences
from shared.graph.prompt_format import truncate_text
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.tools.readings import MAX_CLAIMS, MAX_REASON_CHARS, Findings, Material, ReadableClaim

_LARGEST_ID: Final = 2**128 - 1
_NEIGHBOUR_BYTES: Final = 200
_MAX_NEIGHBOUR_CHARS: Final = 80
_MAX_QUOTE_CHARS: Final = 500
_MAX_TITLE_CHARS: Final = 60
_MAX_VALUE_CHARS: Final = 300
_OWN_SIGNS: Final = str.maketrans("»«|", "''/")
"""Signs that only Vigil writes into a request."""

PASSAGE_SQL: Final = f"""
substring(page.bytes, greatest(first_byte - {_NEIGHBOUR_BYTES}, 0) + 1, least(first_byte, {_NEIGHBOUR_BYTES})) as before,
substring(page.bytes, first_byte + 1, end_byte - first_byte) as quote,
substring(page.bytes, end_byte + 1, {_NEIGHBOUR_BYTES}) as after
"""
"""The quote of evidence and what is beside it. `page.bytes` is the text of its page in UTF-8."""
# The ids are hashes, so those below a bound are a random sample, and the same one when the step is resumed.
_SAMPLE: Final = CompiledStatement(f"""
select evidence.id as evidence_id, evidence.claims, evidence.valid_from, evidence.valid_to, page.title, page.published,
  {PASSAGE_SQL},
  coalesce(node.type, edge.type) as type, coalesce(node.name, subject.name) as name, object.name as object_name
from evidence
cross join lateral (
  select title, published, convert_to(text, 'UTF8') as bytes from sources
  where sources.id = evidence.source_id and retracted_at is null offset 0
) as page
left join graph_nodes as node on node.id = evidence.node_id
left join graph_edges as edge on edge.id = evidence.edge_id
left join graph_nodes as subject on subject.id = edge.source_id
left join graph_nodes as object on object.id = edge.target_id
where evidence.step_id = :of_step and evidence.id <= :bound and (evidence.agent_id = {OWNED_AGENT_ID_SQL}) is true
  and not exists (select from entailment_verdicts where evidence_id = evidence.id)
order by evidence.id limit {MAX_CLAIMS}
""")
_STORE: Final = CompiledStatement("""
insert into entailment_verdicts
  (evidence_id, agent_id, verdict, reason, model, prompt_version, call_id, step_id, due_at)
select evidence.id, evidence.agent_id, found.verdict, found.reason, :model, :prompt_version, :call_id, :of_step,
  case when found.verdict = :contradicted then clock_timestamp() end
from jsonb_to_recordset(cast(:found as jsonb)) as found (evidence_id uuid, verdict text, reason text)
join evidence on evidence.id = found.evidence_id
where evidence.agent_id = :of_agent
on conflict do nothing
""")


def new_evidence(scope: GraphScope, share: float) -> BoundQuery[Material | None]:
    """A sample of what the step has written, as a share of 0 to 1; without what has a verdict. None if it is empty."""
    params = {
        **scope.sql_params,
        "of_step": scope.step_id,
        "bound": UUID(int=min(int(share * _LARGEST_ID), _LARGEST_ID)),
    }
    return BoundQuery(_SAMPLE, params, _read)


def _read(rows: Sequence[Row]) -> Material | None:
    claims = [readable(row, row.claims, passage_of(row)) for row in rows]
    return Material(claims) if claims else None


def store_verdicts(scope: GraphScope, found: Findings) -> BoundQuery[None]:
    """Stores the verdicts on claims, without those of evidence that has one, or was merged into other evidence meanwhile."""
    params = {
        "of_agent": scope.agent_id,
        "of_step": scope.step_id,
        "found": json_text(
            [
                {
                    "evidence_id": evidence_id,
                    "verdict": each.verdict,
                    "reason": each.reason[:MAX_REASON_CHARS],
                }
                for evidence_id, each in found.claims.items()
            ]
        ),
        "model": found.model,
        "prompt_version": found.prompt_version,
        "call_id": found.call_id,
        "contradicted": Entailment.CONTRADICTED,
    }
    return BoundQuery(_STORE, params, lambda _: None)


def readable(row: Row, values: Mapping[str, Any], passage: str = "") -> ReadableClaim:
    """The claim of a row with `type`, `name`, `object_name`, `valid_from`, `valid_to`, `evidence_id`, `title` and
    `published`. It is compared with its page if there is a `passage`.
    """
    text = _claim(row.type, [row.name, row.object_name], values)
    text += _validity(row.valid_from, row.valid_to)
    if not passage:
        return ReadableClaim(text)
    title = json.dumps(truncate_text(row.title or "", _MAX_TITLE_CHARS), ensure_ascii=False)
    day = f"{row.published:%Y-%m-%d}" if row.published else "undated"
    return ReadableClaim(text, row.evidence_id, passage, f"{title}, {day}")


def passage_of(row: Row) -> str:
    """The quote in »«, between the sentences beside it."""
    before, quote, after = map(_plain, (row.before, row.quote, row.after))
    left = [before[start:end] for start, end in find_sentences(before)]
    right = [after[start:end] for start, end in find_sentences(after)]
    parts = [
        left[-1][-_MAX_NEIGHBOUR_CHARS:] if left else "",
        f"»{truncate_text(quote, _MAX_QUOTE_CHARS)}«",
        right[0][:_MAX_NEIGHBOUR_CHARS] if right else "",
    ]
    return " ".join(filter(None, parts))


def _plain(part: bytes) -> str:
    """The text on one line, without the signs around quotes and without halves of characters."""
    text = bytes(part).decode(errors="ignore").translate(_OWN_SIGNS)
    return " ".join(text.split())


def _claim(type_name: str, names: Sequence[str | None], values: Mapping[str, Any]) -> str:
    subject, *objects = [json.dumps(name, ensure_ascii=False) for name in names if name]
    text = f"{subject} {type_name} {objects[0]}" if objects else f"{type_name} {subject}"
    if not values:
        return f"{text}, which exists" if not objects else text
    listing = "; ".join(f"{name} = {_value(value)}" for name, value in values.items())
    return f"{text}: {listing}"


def _value(value: Any) -> str:
    return truncate_text(json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)


def _validity(valid_from: datetime | None, valid_to: datetime | None) -> str:
    parts = [
        f"{word} {moment:%Y-%m-%d}"
        for word, moment in (("from", valid_from), ("until", last_moment(valid_to)))
        if moment is not None
    ]
    return f" ({' '.join(parts)})" if parts else ""
