"""The owner's feedback on earlier advice, which later phases of the agent are shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import bindparam, func, or_, select, text

from shared.database.statements import BoundQuery, CompiledStatement
from shared.database.tables import InboxItem
from shared.enums import InboxKind
from shared.workflow.agent_clock import NOW_SQL

MAX_FEEDBACK_CHARS: Final = 500
MAX_SHOWN: Final = 10
_MAX_TITLE_CHARS: Final = 120

RULE: Final = """\
`owner_feedback` is what the owner decided about advice. Do not give dismissed advice again unless what it rests on has \
changed since. Follow what the owner says within the mission."""
"""Stands beside the section; without feedback, neither is in the request."""

_NEWEST: Final = CompiledStatement(
    select(
        func.left(InboxItem.title, _MAX_TITLE_CHARS).label("title"),
        InboxItem.outcome,
        InboxItem.useful,
        InboxItem.feedback,
        func.least(InboxItem.answered_at, text(NOW_SQL)).label("answered_at"),
    )
    .where(
        InboxItem.agent_id == bindparam("of_agent"),
        InboxItem.kind == InboxKind.ADVICE,
        InboxItem.answered_at.is_not(None),
        or_(
            InboxItem.outcome.is_not(None),
            InboxItem.useful.is_not(None),
            InboxItem.feedback.is_not(None),
        ),
    )
    .order_by(InboxItem.answered_at.desc(), InboxItem.id)
    .limit(MAX_SHOWN)
)


@dataclass(frozen=True)
class Feedback:
    """The owner's decision and comment on one advice."""

    title: str
    outcome: str | None
    useful: bool | None
    feedback: str | None
    answered_at: datetime


def list_feedback(agent_id: UUID) -> BoundQuery[Sequence[Feedback]]:
    """Returns the feedback on the advice that was answered last, the newest first."""
    return BoundQuery(
        _NEWEST, {"of_agent": agent_id}, lambda rows: [Feedback(*row) for row in rows]
    )


def format_lines(feedback: Sequence[Feedback]) -> str:
    """Formats feedback for a prompt, one line for each advice; empty if there is none."""
    return "\n".join(map(_line, feedback))


def _line(each: Feedback) -> str:
    words = [f"{each.answered_at.astimezone(UTC):%Y-%m-%d}"]
    if each.outcome:
        words.append(each.outcome)
    if each.useful is not None:
        words.append("useful" if each.useful else "not useful")
    said = f" Owner: {_quoted(each.feedback)}" if each.feedback else ""
    return f"- {', '.join(words)}: {_quoted(each.title)}.{said}"


def _quoted(text: str) -> str:
    return json.dumps(" ".join(text.split()), ensure_ascii=False)
