"""The observer phase: what is not known yet, and what is known but not yet thought about."""

import json
import re

from sandbox.reader.answer import Answer
from sandbox.reader.graph_view import STRING, GraphView
from sandbox.reader.observe.gaps import find_gaps
from sandbox.reader.observe.patterns import find_patterns
from sandbox.reader.request import ChatRequest
from sandbox.text.subject import subject_of

MAX_QUERIES = 3
MAX_QUERIES_BESIDE_INSIGHTS = 2
MAX_INSIGHTS = 2
REPEAT_LINE = re.compile(rf"^- \w+ ({STRING}): ")


def observe(request: ChatRequest) -> Answer:
    """A plan of at most four items; both lists are empty where nothing is lacking."""
    view = GraphView(request.section("graph_context"))
    subject = subject_of(request.mission)
    told = repeated(request)
    found = (pattern.insight() for pattern in find_patterns(subject, view))
    insights = [each for each in found if each["observation"] not in told][:MAX_INSIGHTS]
    most = MAX_QUERIES_BESIDE_INSIGHTS if insights else MAX_QUERIES
    gaps = find_gaps(request.mission, subject, view, most + len(told))
    asked = (gap.query(request.mission) for gap in gaps)
    queries = [each for each in asked if each["objective"] not in told][:most]
    plan = {"queries": queries, "insights": insights}
    return Answer(json.dumps(plan, ensure_ascii=False))


def repeated(request: ChatRequest) -> frozenset[str]:
    """Objectives and observations of an earlier plan of this request that were told to repeat what is known."""
    lines = request.section("repeats").splitlines()
    matches = (REPEAT_LINE.match(line) for line in lines)
    return frozenset(json.loads(match[1]) for match in matches if match)
