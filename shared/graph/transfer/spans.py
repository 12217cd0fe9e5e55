"""What stands at spans of pages that have arrived already, before their evidence is written."""

from collections.abc import Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.proof.rows import EvidenceRow
from shared.graph.transfer.checking import Sources
from shared.graph.verify.checks import Spanned

_QUOTES = text(
    "select substring(convert_to(sources.text, 'UTF8'),"
    " least(first_byte, octet_length(sources.text)) + 1,"
    " least(end_byte - first_byte, octet_length(sources.text))), octet_length(sources.text)"
    " from unnest(cast(:sources as uuid[]), cast(:first as int[]), cast(:end as int[]))"
    " with ordinality as wanted (source_id, first_byte, end_byte, place)"
    " left join sources on sources.id = source_id order by place"
)


async def spanned(
    session: AsyncSession, evidence: Sequence[EvidenceRow], sources: Sources
) -> list[Spanned]:
    """Of evidence as it was, in its order."""
    if not evidence:
        return []
    new = [sources[each.source_id][0] if each.source_id in sources else None for each in evidence]
    rows = await session.execute(
        _QUOTES,
        {
            "sources": new,
            "first": [each.first_byte for each in evidence],
            "end": [each.end_byte for each in evidence],
        },
    )
    return [
        Spanned(
            row,
            bytes(quote or b""),
            text_bytes or 0,
            has_source=row.source_id in sources,
            is_retracted=row.source_id in sources and sources[row.source_id][1],
        )
        for row, (quote, text_bytes) in zip(evidence, rows, strict=True)
    ]
