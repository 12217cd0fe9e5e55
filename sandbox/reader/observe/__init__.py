"""The observer phase: what is not known yet, and what is known but not yet thought about."""

import json

from sandbox.reader.answer import Answer
from sandbox.reader.graph_view import GraphView
from sandbox.reader.observe.gaps import find_gaps
from sandbox.reader.observe.patterns import find_patterns
from sandbox.reader.request import ChatRequest
from sandbox.text.subject import subject_of

MAX_QUERIES = 3
MAX_QUERIES_BESIDE_INSIGHTS = 2
MAX_INSIGHTS = 2


def observe(request: ChatRequest) -> Answer:
    """A plan of at most four items; both lists are empty where nothing is lacking."""
    view = GraphView(request.section("graph_context"))
    subject = subject_of(request.mission)
    patterns = find_patterns(subject, view)[:MAX_INSIGHTS]
    most = MAX_QUERIES_BESIDE_INSIGHTS if patterns else MAX_QUERIES
    gaps = find_gaps(request.mission, subject, view, most)
    plan = {
        "queries": [gap.query(request.mission) for gap in gaps],
        "insights": [pattern.insight() for pattern in patterns],
    }
    return Answer(json.dumps(plan, ensure_ascii=False))
