"""Prompt of the Adviser."""

from datetime import datetime
from typing import Final

from shared.agents import feedback
from shared.graph.conclusions import positions
from shared.llm.messages import DATA_ONLY, now_line, wrap_section

_RULES = """\
Decide whether the analyses, with those before them, warrant advice. Mostly they do not: you run after every iteration, \
and waiting costs less than a wrong recommendation.

Advise only if the analyses answer every question that matters, they agree or settle where they differ, no important gap \
or doubt is left, and there is a reason to act now. Otherwise say in one sentence what is open.

Write advice with addAgentAdviceNode, one for each subject. Call `finish` in the same answer.
- `content` says what is recommended and how firmly, which analyses support it, the risks, and why now.
- Cite {least} as [n17], and nothing else.
- A model reads each sentence, title and summary too, against the cited analyses and what these cite. One that does not \
follow stops the advice: cite in each sentence the analyses that have its figures and dates.
- Show calculations with their operands. Say "X says" of what only X says, "expects" of a forecast. Of contested values \
give both.
- Ignore what is past its horizon.
- `memories` are the owner's words: consider positions, preferences and exclusions.
{data_only}"""


_TWO: Final = "at least two analyses (if there is only one, advise nothing)"
_ONE: Final = "at least one analysis"


def rules(*, from_one_analysis: bool) -> str:
    """With `from_one_analysis`, the owner allows advice that cites a single one."""
    return _RULES.format(least=_ONE if from_one_analysis else _TWO, data_only=DATA_ONLY)


def user_message(
    mission: str,
    analyses: str,
    graph_context: str,
    now: datetime,
    memories: str = "",
    owner_feedback: str = "",
    standing_advice: str = "",
) -> str:
    """`owner_feedback` and `standing_advice` have a line for each advice: that the owner answered, or that stands."""
    return "\n\n".join(
        [
            wrap_section("mission", mission),
            wrap_section("graph_context", graph_context),
            wrap_section("analyses", analyses),
            *(
                [wrap_section("standing_advice", standing_advice), positions.rule(standing_advice)]
                if standing_advice
                else []
            ),
            *([wrap_section("memories", memories)] if memories else []),
            *(
                [wrap_section("owner_feedback", owner_feedback), feedback.RULE]
                if owner_feedback
                else []
            ),
            now_line(now),
        ]
    )
