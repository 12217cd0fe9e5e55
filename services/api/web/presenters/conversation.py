"""What an empty conversation suggests to ask, by rules from the mission and the newest conclusion. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from services.api.queries.conclusions import LatestConclusion

MAX_NAME_CHARS: Final = 80
_VERBS: Final = frozenset(
    {"watch", "follow", "monitor", "observe", "research", "track", "study", "survey"}
)
"""Missions that begin with one of these name their subject after it."""
_END_OF_CLAUSE: Final = re.compile(r"[,.;:!?\n]|\band (?:find|tell|say|report|alert|warn)\b")
_ADVICE: Final = frozenset({"BUY", "SELL", "HOLD"})


def suggested_questions(
    name: str, mission: str, newest: Sequence[LatestConclusion]
) -> Sequence[str]:
    """Questions for the first message: about the newest conclusion, if there is one, and about the mission."""
    questions = []
    if newest:
        conclusion = newest[0]
        subject = _cut(conclusion.name)
        if conclusion.word in _ADVICE:
            questions.append(f"Why do you advise {conclusion.word}: {subject}?")
            questions.append("What would make you withdraw this advice?")
        else:
            questions.append(f"What supports your conclusion “{subject}”?")
            questions.append("What could prove it wrong?")
    else:
        questions.append("What do you know so far, and how sure are you?")
    questions.append(f"What is new about {_cut(_subject(mission) or name)}?")
    questions.append("What do you still need to find out, and what will you do next?")
    return questions


def _subject(mission: str) -> str | None:
    """`zinc smelters` of "Watch zinc smelters, and …"; None where the mission has no such form."""
    verb, _, rest = mission.strip().partition(" ")
    if verb.lower() not in _VERBS:
        return None
    return _END_OF_CLAUSE.split(rest, maxsplit=1)[0].strip() or None


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_NAME_CHARS else f"{line[: MAX_NAME_CHARS - 1].rstrip()}…"
