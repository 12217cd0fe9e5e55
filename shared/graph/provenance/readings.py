"""Claims that a model reads with their quotes, in words, and its verdicts on them."""

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from shared.database.statements import BoundQuery, CompiledStatement, Row, json_text
from shared.domains import host_of
from shared.enums import Entailment
from shared.graph.prompt_format import truncate_text
from shared.graph.provenance.page_reading import find_sentences
from shared.graph.provenance.validity import last_moment
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.tools.readings import (
    EXISTS,
    MAX_REASON_CHARS,
    OWN_SIGNS,
    Findings,
    Material,
    ReadableClaim,
)

_LARGEST_ID: Final = 2**128 - 1
_MAX_SAMPLED: Final = 20
"""Pieces of evidence of a step that are read as a sample."""
_NEIGHBOUR_BYTES: Final = 200
_MAX_NEIGHBOUR_CHARS: Final = 80
_MAX_QUOTE_CHARS: Final = 500
_MAX_TITLE_CHARS: Final = 60
_MAX_VALUE_CHARS: Final = 600
"""Length of a value as JSON. A longer one is shown in part, and gets no verdict."""

PASSAGE_SQL: Final = f"""
substring(page.bytes, greatest(first_byte - {_NEIGHBOUR_BYTES}, 0) + 1, least(first_byte, {_NEIGHBOUR_BYTES})) as before,
substring(page.bytes, first_byte + 1, end_byte - first_byte) as quote,
substring(page.bytes, end_byte + 1, {_NEIGHBOUR_BYTES}) as after
"""
"""The quote of evidence and what is beside it. `page.bytes` is the text of its page in UTF-8."""
# The ids are hashes, so those below a bound are a random sample, and the same one when the step is resumed. What one page
# says of one element is read together.
_SAMPLE: Final = CompiledStatement(f"""
with fresh as (
  select evidence.* from evidence
  where step_id = :of_step and (agent_id = {OWNED_AGENT_ID_SQL}) is true
    and not exists (select from entailment_verdicts where evidence_id = evidence.id)
), sampled as (
  select coalesce(node_id, edge_id) as element_id, source_id, min(cast(id as text)) as first_id from fresh
  where id <= :bound group by 1, 2
)
select coalesce(node.id, edge.id) as id, fresh.id as evidence_id, fresh.source_id, fresh.claims, fresh.valid_from,
  fresh.valid_to, fresh.speaker, page.title, page.url, page.published, {PASSAGE_SQL},
  coalesce(node.type, edge.type) as type, coalesce(node.name, subject.name) as name, object.name as object_name
from sampled
join fresh on coalesce(fresh.node_id, fresh.edge_id) = element_id and fresh.source_id = sampled.source_id
cross join lateral (
  select title, published, url, convert_to(text, 'UTF8') as bytes from sources
  where sources.id = fresh.source_id and retracted_at is null offset 0
) as page
left join graph_nodes as node on node.id = fresh.node_id
left join graph_edges as edge on edge.id = fresh.edge_id
left join graph_nodes as subject on subject.id = edge.source_id
left join graph_nodes as object on object.id = edge.target_id
order by first_id, first_byte, evidence_id limit {_MAX_SAMPLED}
""")
_STORE: Final = CompiledStatement("""
insert into entailment_verdicts
  (evidence_id, property, agent_id, verdict, reason, model, prompt_version, call_id, step_id, due_at)
select evidence.id, found.property, evidence.agent_id, found.verdict, found.reason, found.model, :prompt_version,
  found.call_id, :of_step, case when found.verdict <> :supported then clock_timestamp() end
from jsonb_to_recordset(cast(:found as jsonb)) as found (
  evidence_id uuid, property text, verdict text, reason text, model text, call_id uuid)
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
    shared = shared_texts(rows)
    claims = [readable(group, shared.get(group[0].id, ())) for group in grouped(rows)]
    claims += [
        readable_together(of_text, name)
        for texts in shared.values()
        for name, of_text in texts.items()
    ]
    claims = [each for each in claims if each.values]
    return Material(claims) if claims else None


def shared_texts(rows: Iterable[Row]) -> dict[UUID, dict[str, list[Row]]]:
    """By element and property, the rows that give the same text by several pages or speakers, or for several times.

    Each of them can have a part of it, such as of a summary.
    """
    found: dict[UUID, dict[str, list[Row]]] = {}
    for row in rows:
        for name, value in row.claims.items():
            if isinstance(value, str) and " " in value:
                found.setdefault(row.id, {}).setdefault(name, []).append(row)
    several: dict[UUID, dict[str, list[Row]]] = {}
    for element_id, texts in found.items():
        for name, of_text in texts.items():
            is_one_text = len({each.claims[name] for each in of_text}) == 1
            entries = {(e.source_id, e.valid_from, e.valid_to, e.speaker) for e in of_text}
            if is_one_text and len(entries) > 1:
                several.setdefault(element_id, {})[name] = of_text
    return several


def grouped(rows: Iterable[Row]) -> list[list[Row]]:
    """Evidence by element, page, validity and speaker, in the order of the first of each: one page is read as one.

    Of a group, each property has one value. Sentences without values stand with those of their page that have some.
    """
    all_rows = list(rows)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in all_rows:
        key = (row.id, row.source_id, row.valid_from, row.valid_to, row.speaker)
        number = 0
        while any(_differ(row, each) for each in groups.get((*key, number), ())):
            number += 1
        groups.setdefault((*key, number), []).append(row)
    stating = {(row.id, row.source_id) for row in all_rows if row.claims}
    return [
        [
            each
            for each in all_rows
            if each in of_group
            or (not each.claims and each.id == row.id and each.source_id == row.source_id)
        ]
        for of_group in groups.values()
        if (row := of_group[0])
        and (any(each.claims for each in of_group) or (row.id, row.source_id) not in stating)
    ]


def _differ(row: Row, other: Row) -> bool:
    """Whether both give one property different values."""
    return any(
        name in other.claims and other.claims[name] != value for name, value in row.claims.items()
    )


def store_verdicts(scope: GraphScope, found: Findings) -> BoundQuery[None]:
    """Stores the verdicts on values, without those that have one, and of evidence that was merged into other meanwhile."""
    params = {
        "of_agent": scope.agent_id,
        "of_step": scope.step_id,
        "found": json_text(
            [
                {
                    "evidence_id": evidence_id,
                    "property": name,
                    "verdict": each.verdict,
                    "reason": each.reason[:MAX_REASON_CHARS],
                    **found.reader_of(each)._asdict(),
                }
                for (evidence_id, name), each in found.claims.items()
            ]
        ),
        "prompt_version": found.prompt_version,
        "supported": Entailment.SUPPORTED,
    }
    return BoundQuery(_STORE, params, lambda _: None)


def readable(rows: Sequence[Row], left_out: Container[str] = ()) -> ReadableClaim:
    """The claim of one group of rows, each with `type`, `name`, `object_name`, `claims`, `valid_from`, `valid_to`,
    `speaker`, `evidence_id`, `title`, `url`, `published` and its quote, to be compared with their quotes.

    Each of its values gets a verdict of its own, and so does an edge, or the existence of a node without values. One that is
    too long to be shown gets none. Properties that are `left_out` are read elsewhere.
    """
    row = next((each for each in rows if each.claims), rows[0])
    values: dict[str, Any] = {}
    evidence: dict[str | None, list[UUID]] = {}
    for each in rows:
        given = {name: value for name, value in each.claims.items() if name not in left_out}
        names = [name for name, value in given.items() if _is_shown_whole(value)]
        names += [EXISTS] if row.object_name or not each.claims else []
        for name in names:
            evidence.setdefault(name, []).append(each.evidence_id)
        values |= given
    return ReadableClaim(_said(row, values), evidence, passage_of(rows), _page_of(row))


def readable_together(rows: Sequence[Row], name: str) -> ReadableClaim:
    """The claim of rows that give the same text: see `shared_texts`. It says neither when it holds nor who says so."""
    by_page: dict[UUID, list[Row]] = {}
    for row in rows:
        by_page.setdefault(row.source_id, []).append(row)
    first = rows[0]
    text = _claim(first.type, [first.name, first.object_name], {name: first.claims[name]})
    is_shown = _is_shown_whole(first.claims[name])
    return ReadableClaim(
        text,
        {name: [each.evidence_id for each in rows]} if is_shown else {},
        " ".join(map(passage_of, by_page.values())),
        "; ".join(_page_of(of_page[0]) for of_page in by_page.values()),
    )


def _page_of(row: Row) -> str:
    title = json.dumps(truncate_text(row.title or "", _MAX_TITLE_CHARS), ensure_ascii=False)
    day = f"{row.published:%Y-%m-%d}" if row.published else "undated"
    return ", ".join(filter(None, [title, host_of(row.url or ""), day]))


def as_it_is(row: Row) -> ReadableClaim:
    """The properties of the row's element, which are compared with no page."""
    held = row.properties if row.claims is None else row.claims
    return ReadableClaim(_said(row, held) + _said_on(row))


def readable_again(rows: Sequence[Row], verdict: Entailment) -> ReadableClaim:
    """The claims of one group of rows, as for `readable`, that have this verdict, with their quotes."""
    row = next((each for each in rows if each.claims), rows[0])
    values = {name: value for each in rows for name, value in each.claims.items()}
    if verdict is Entailment.SUPPORTED and len(values) > 1:
        values.pop("summary", None)  # The quotes say it.
    text = _said(row, values) + _said_on(row)
    return ReadableClaim(text, passage=" ".join(_quotes_of(rows)), verdict=verdict)


def _said(row: Row, values: Mapping[str, Any]) -> str:
    """The values of the row's element, with their validity, and who says so."""
    text = _claim(row.type, [row.name, row.object_name], values)
    text += _validity(row.valid_from, row.valid_to)
    return f"{json.dumps(row.speaker, ensure_ascii=False)} says: {text}" if row.speaker else text


def _said_on(row: Row) -> str:
    """The date of the row in parentheses: a conclusion can state it."""
    said_on = getattr(row, "said_on", None)
    return f" ({said_on:%Y-%m-%d})" if said_on else ""


def other_values(row: Row, values: str) -> str:
    """A claim that says what stands beside the values of an element, which a conclusion can state or leave out."""
    return f"{_subject(row.type, [row.name, row.object_name])}: {values}"


def passage_of(rows: Sequence[Row]) -> str:
    """The quotes of one page in »«, between the sentences beside the first and the last."""
    before, after = _plain(rows[0].before), _plain(rows[-1].after)
    left = [before[start:end] for start, end in find_sentences(before)]
    right = [after[start:end] for start, end in find_sentences(after)]
    parts = [
        left[-1][-_MAX_NEIGHBOUR_CHARS:] if left else "",
        *_quotes_of(rows),
        right[0][:_MAX_NEIGHBOUR_CHARS] if right else "",
    ]
    return " ".join(filter(None, parts))


def _quotes_of(rows: Sequence[Row]) -> list[str]:
    quotes = dict.fromkeys(_plain(row.quote) for row in rows)
    return [f"»{truncate_text(quote, _MAX_QUOTE_CHARS)}«" for quote in quotes]


def _plain(part: bytes) -> str:
    """The text on one line, without the signs around quotes and without halves of characters."""
    text = bytes(part).decode(errors="ignore").translate(OWN_SIGNS)
    return " ".join(text.split())


def _claim(type_name: str, names: Sequence[str | None], values: Mapping[str, Any]) -> str:
    text = _subject(type_name, names)
    if not values:
        return text if names[1] else f"{text} exists"
    listing = "; ".join(f"{name} = {_value(value)}" for name, value in values.items())
    return f"{text}: {listing}"


def _subject(type_name: str, names: Sequence[str | None]) -> str:
    subject, *objects = [json.dumps(name, ensure_ascii=False) for name in names if name]
    return f"{subject} {type_name} {objects[0]}" if objects else f"{type_name} {subject}"


def _value(value: Any) -> str:
    return truncate_text(json.dumps(value, ensure_ascii=False), _MAX_VALUE_CHARS)


def _is_shown_whole(value: Any) -> bool:
    return len(json.dumps(value, ensure_ascii=False)) <= _MAX_VALUE_CHARS


def _validity(valid_from: datetime | None, valid_to: datetime | None) -> str:
    parts = [
        f"{word} {moment:%Y-%m-%d}"
        for word, moment in (("from", valid_from), ("until", last_moment(valid_to)))
        if moment is not None
    ]
    return f" ({' '.join(parts)})" if parts else ""
