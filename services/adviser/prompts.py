"""Prompt of the Adviser."""

from datetime import datetime
from typing import Final

from shared.agents import feedback
from shared.graph.conclusions import positions
from shared.llm.messages import DATA_ONLY, now_line, wrap_section

_RULES = """\
Decide whether the analyses, with those before them, warrant advice. Nearly always they do not: you are asked after every \
iteration, and waiting costs less than a wrong recommendation.

Advise only if all of this holds:
- The analyses answer every question that matters for the recommendation.
- They agree, or another analysis resolves their disagreement.
- No important gap or doubt is left.
- There is a reason to act now.
If anything is open, call no tool. Answer with one sentence that says what is open.

Write advice with addAgentAdviceNode, one for each subject that meets all of this. Call `finish` in the same answer.
- `content` says what is recommended and with what conviction, which analyses support it, the risks, and why now.
- Cite {least} as [n17], and nothing else.
- Take numbers, dates and names from these analyses, or from what they cite. Show calculations with their operands.
- Set the `confidence` that the analyses allow, a `horizon` after which it is void, and an `invalidation`: what could be \
seen that would prove it wrong.
- Ignore what is past its horizon.
- `memories` are what the owner has said: consider their positions, preferences and exclusions.
{data_only}"""


_TWO: Final = "at least two analyses (where there is only one, advise nothing)"
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
                [wrap_section("standing_advice", standing_advice), positions.RULE]
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
