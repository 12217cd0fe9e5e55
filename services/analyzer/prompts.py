"""Prompt of the Analyzer, and the parsing of missing data in its answer."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from shared.agents import feedback
from shared.events.models import Insight
from shared.graph.validation import one_line
from shared.llm.messages import DATA_ONLY, now_line, wrap_section
from shared.urls import with_known_urls

_MISSING = re.compile(r"^\W*MISSING:\s*(.+?)\s*$", re.MULTILINE)
MAX_MISSING_CHARS = 300

RULES: Final = f"""\
Analyze the insight with what the graph holds. You cannot search the web.

Record each conclusion that the data supports with addAgentAnalysisNode, with an `about` edge to its subject.
- A model reads each sentence, title and summary too, against what it cites. One that does not follow stops the analysis: \
cite in each sentence the nodes or edges that have its figures and dates, [n17] or [e4]. Look up what you do not see.
- Show calculations with their operands: "from 40 to 50 million, by 25 %".
- Say "X says" of what only X says, "expects" of a forecast. Of contested values give both, neither as the fact. What \
holds "from" a later date does not hold yet.
- Repeat no analysis. If new data changes one, say what changed.

If the data supports none, record none. Request what is missing with requestInvestigation: what, of whom, for when; \
nothing that is requested already, was not found recently, or only adds detail.

`written` is what this iteration wrote. `answered` is what you lacked and was searched for since.
Call `finish` in the same answer as your last other calls.
{DATA_ONLY}"""


def user_message(
    mission: str,
    insight: Insight,
    relevant_nodes: str,
    graph_context: str,
    written: str,
    now: datetime,
    earlier_objectives: Sequence[str] = (),
    shorten: Callable[[str], str] = str,
    owner_feedback: str = "",
) -> str:
    """`written` has what this iteration's queries wrote. `earlier_objectives` of this insight have been searched for since.
    `owner_feedback` has a line for each advice that the owner answered.

    `shorten` replaces the ids in what belongs to this run alone.
    """
    objectives = "\n".join(f"- {one_line(objective)}" for objective in earlier_objectives)
    ids = shorten(", ".join(str(node_id) for node_id in insight.relevant_node_ids))
    insight_text = (
        f"Observation: {one_line(insight.observation)}\n"
        f"Synthesis direction: {one_line(insight.synthesis_direction)}\n"
        f"Relevant node ids: {ids}"
    )
    return "\n\n".join(
        [
            wrap_section("mission", mission),
            wrap_section("graph_context", graph_context),
            *([wrap_section("written", shorten(written))] if written else []),
            wrap_section("insight", insight_text),
            wrap_section("relevant_nodes", shorten(relevant_nodes)),
            *([wrap_section("answered", objectives)] if earlier_objectives else []),
            *(
                [wrap_section("owner_feedback", owner_feedback), feedback.RULE]
                if owner_feedback
                else []
            ),
            now_line(now),
        ]
    )


def parse_missing_lines(answer: str) -> list[str]:
    """Missing data in `MISSING:` lines, the format from before there was a tool for it.

    Without addresses: the Researcher may read what its query names.
    """
    lines = [
        one_line(with_known_urls(line))[:MAX_MISSING_CHARS] for line in _MISSING.findall(answer)
    ]
    return [line for line in lines if line]


def missing_data(answer: str, *, has_concluded: bool) -> list[str]:
    """The data that the model says is missing; its whole answer if it neither concluded nor requested anything."""
    missing_lines = parse_missing_lines(answer)
    if missing_lines or has_concluded or not answer.strip():
        return missing_lines
    return [with_known_urls(answer.strip())[:MAX_MISSING_CHARS]]
