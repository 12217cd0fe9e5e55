"""The observer phase: plans queries for what is missing and insights for what is not analyzed yet."""

import json
import re

from sandbox.model.graph_view import STRING, GraphView
from sandbox.model.observe.gaps import find_gaps
from sandbox.model.observe.news import new_documents
from sandbox.model.observe.patterns import find_patterns
from sandbox.model.request import Answer, ChatRequest
from sandbox.text.missions import parse_mission

MAX_QUERIES = 3
MAX_QUERIES_BESIDE_INSIGHTS = 2
MAX_INSIGHTS = 2
REPEAT_LINE = re.compile(rf"^- \w+ ({STRING}): ")


def observe(request: ChatRequest) -> Answer:
    """Plan at most four items; both lists are empty if nothing is missing."""
    view = GraphView(request.section("graph_context"))
    subject = parse_mission(request.mission)
    repeats = repeated_items(request)
    candidates = (pattern.insight() for pattern in find_patterns(subject, view))
    insights = [item for item in candidates if item["observation"] not in repeats][:MAX_INSIGHTS]
    max_queries = MAX_QUERIES_BESIDE_INSIGHTS if insights else MAX_QUERIES
    gaps = [
        *new_documents(subject, view, request.section("news")),
        *find_gaps(request.mission, subject, view, max_queries + len(repeats)),
    ]
    candidate_queries = (gap.query(request.mission) for gap in gaps)
    queries = [item for item in candidate_queries if item["objective"] not in repeats][:max_queries]
    plan = {"queries": queries, "insights": insights}
    return Answer(json.dumps(plan, ensure_ascii=False))


def repeated_items(request: ChatRequest) -> frozenset[str]:
    """Objectives and observations that this request rejects as repetitions."""
    lines = request.section("repeats").splitlines()
    matches = (REPEAT_LINE.match(line) for line in lines)
    return frozenset(json.loads(match[1]) for match in matches if match)
