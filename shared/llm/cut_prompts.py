"""Finds requests of which a server has read only a part: some cut what exceeds their context, and say so nowhere."""

from collections.abc import Sequence
from statistics import median
from typing import Final
from uuid import UUID

from shared.billing.token_lengths import REQUEST_BYTES
from shared.database.engine import Database
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.llm.messages import ChatAnswer, ChatRequest, Message, encode_json

CONTEXT_CUT: Final = "context_cut"
READ_SHARE: Final = 0.5
"""An answer to less of the request than this is not used."""
MIN_CONTEXT: Final = 256
"""A server that counts fewer tokens counts something else: no context is so short."""
MIN_TOKENS: Final = 500
"""Shorter requests fit into every context."""
SUSPECT_RATIO: Final = 4.8
"""Bytes of a request for each token that was read, from which on the calls before are looked at. English has about 4."""
UNKNOWN_RATIO: Final = 4.5
"""Bytes a token, for a model whose ratio is not known: more than any language and tokenizer have."""
_RATIOS: Final = (1.5, 6.0)
"""Ratios of a request that was read in full."""
_SIMILAR: Final = 0.7
"""A request that is so large a part of another shows whether that one can be read."""
_SAME: Final = 0.35
"""Tolerance for what a server counts without its cache."""
_MIN_CALLS: Final = 3
_CALLS: Final = CompiledStatement(f"""
select cast(request ->> '{REQUEST_BYTES}' as float8) as bytes, input_tokens from calls
where agent_id = :of_agent and model = :model and input_tokens > 0 and request ? '{REQUEST_BYTES}'
order by started_at desc limit 60
""")


async def find_cut(
    database: Database, agent_id: UUID, request: ChatRequest, answer: ChatAnswer
) -> str | None:
    """How much of `request` was read, as a sentence, if that is less than half; else None.

    Servers that count only what was not in their cache are no reason: see `_is_explained_by_cache`.
    """
    read = answer.read_tokens
    sent = request.messages if answer.sent_messages is None else answer.sent_messages
    # Without a schema of the answer, which many servers do not show to the model.
    length = len(encode_json([*sent, *request.tools]))
    if read is None or read < MIN_CONTEXT or length / read < SUSPECT_RATIO:
        return None
    query = BoundQuery(_CALLS, {"of_agent": agent_id, "model": request.model}, _known_calls)
    calls = await database.run(query)
    ratio = UNKNOWN_RATIO
    if len(calls) >= _MIN_CALLS:
        ratio = min(median(size / tokens for size, tokens in calls), UNKNOWN_RATIO)
    expected = length / ratio
    if expected < MIN_TOKENS or read >= READ_SHARE * expected:
        return None
    if _is_explained_by_cache(sent, length, read * ratio, [size for size, _ in calls]):
        return None
    return (
        f"the server read only {read:,} of about {expected:,.0f} tokens of the request: its context is about {read:,}"
        " tokens"
    )


def _known_calls(rows: list[Row]) -> list[tuple[float, int]]:
    """Length and tokens of calls that were read in full."""
    calls = [(float(row.bytes), int(row.input_tokens)) for row in rows]
    return [call for call in calls if _RATIOS[0] <= call[0] / call[1] <= _RATIOS[1]]


def _is_explained_by_cache(
    messages: Sequence[Message], length: int, read_bytes: float, known: Sequence[float]
) -> bool:
    """Whether the server has read such a request before, or has read its beginning before and counts the rest alone."""
    largest = max(known, default=0.0)
    if largest >= _SIMILAR * length:
        return True
    answers = [index for index, each in enumerate(messages) if each.get("role") == "assistant"]
    if not answers:
        return False
    rest = len(encode_json(list(messages[answers[-1] :])))
    return abs(read_bytes - rest) <= _SAME * rest and largest >= _SIMILAR * (length - rest)
