"""Prompts of the Observer, and the model that parses its answer."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from services.observer.deduplication import Repeat
from services.observer.news_items import MAX_OFFERED
from shared.agents import feedback
from shared.graph.prompt_format import quote_name
from shared.graph.validation import one_line
from shared.llm.messages import DATA_ONLY, now_line, wrap_section
from shared.llm.repair import (
    Repairs,
    cut_list,
    cut_text,
    fit_to_schema,
    normalize_key,
    without_repeats,
)
from shared.tools.schemas import MAX_ITEMS


class _AnswerModel(BaseModel):
    # No defaults and no extra fields, as strict JSON Schemas require.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


MAX_QUERIES: Final = 20
MAX_INSIGHTS: Final = 10
"""The prompt asks for a short plan; a longer one is cut, so that its cost is limited."""
MAX_SKIPPED: Final = sum(MAX_OFFERED.values())
MAX_HINTS: Final = 5
MAX_NODES: Final = 30
MAX_ANSWERS: Final = 10
MAX_TEXT_CHARS: Final = 1_500
"""Limit of an objective, a reasoning, an observation or a direction."""
MAX_HINT_CHARS: Final = 380
"""A little less than the search service accepts."""


class PlannedQuery(_AnswerModel):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("query", "question", "goal", "task", "text"), "objective"),
        **dict.fromkeys(("reason", "rationale", "why", "justification"), "reasoning"),
        **dict.fromkeys(("hints", "searches", "searchqueries", "keywords"), "search_hints"),
        **dict.fromkeys(("requests", "requestids", "investigationrequests"), "answers"),
    }

    objective: str = Field(description="One specific thing to find out")
    reasoning: str = Field(description="Why the mission needs it, in one sentence")
    search_hints: list[str] = Field(
        description="1 to 3 searches to begin with",
        json_schema_extra={MAX_ITEMS: MAX_HINTS},
    )
    answers: list[str] = Field(
        description="Ids of the open investigation requests that it answers; mostly none",
        json_schema_extra={MAX_ITEMS: MAX_ANSWERS},
    )

    @model_validator(mode="before")
    @classmethod
    def _default_answers(cls, value: Any) -> Any:
        """Servers that do not enforce the schema omit empty lists."""
        return {"answers": [], **value} if isinstance(value, dict) else value


class PlannedInsight(_AnswerModel):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("insight", "pattern", "text", "description"), "observation"),
        **dict.fromkeys(("nodes", "nodeids", "relevantnodes", "ids"), "relevant_node_ids"),
        **dict.fromkeys(("direction", "synthesis", "angle"), "synthesis_direction"),
    }

    observation: str = Field(description="The pattern, trend or connection")
    relevant_node_ids: list[str] = Field(
        description="Names of the nodes it rests on",
        json_schema_extra={MAX_ITEMS: MAX_NODES},
    )
    synthesis_direction: str = Field(description="From which angle to analyze it")


class SkippedNews(_AnswerModel):
    synonyms: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("address", "item", "page", "document", "link", "news"), "url"),
        **dict.fromkeys(("reasoning", "rationale", "why", "justification"), "reason"),
    }

    url: str = Field(description="Its address")
    reason: str = Field(description="Why it does not matter, in a few words")


class ObserverPlan(_AnswerModel):
    queries: list[PlannedQuery] = Field(
        description="What to find out",
        json_schema_extra={MAX_ITEMS: MAX_QUERIES},
    )
    insights: list[PlannedInsight] = Field(
        description="What to analyze",
        json_schema_extra={MAX_ITEMS: MAX_INSIGHTS},
    )
    skipped: list[SkippedNews] = Field(
        description="News that no query is to read",
        json_schema_extra={MAX_ITEMS: MAX_SKIPPED},
    )

    @model_validator(mode="before")
    @classmethod
    def _default_skipped(cls, value: Any) -> Any:
        return {"skipped": [], **value} if isinstance(value, dict) else value


MAX_LOOK_UPS: Final = 5
"""Names or groups that are looked up at once."""
MAX_LOOK_UP_ROUNDS: Final = 2


class FoldedPlan(ObserverPlan):
    """The plan for a graph that has too many nodes to show their names."""

    look_up: list[str] = Field(
        description="Names, or groups such as `Company: A`, to see before you plan; empty if you have seen enough",
        json_schema_extra={MAX_ITEMS: MAX_LOOK_UPS},
    )


def parse_folded_plan(value: Any, repairs: Repairs) -> FoldedPlan:
    """Like `parse_plan`. A plan that only looks something up may be empty."""
    look_up: list[str] = []
    if isinstance(value, dict):
        value = dict(value)
        wanted = value.pop(next((key for key in value if normalize_key(key) == "lookup"), ""), None)
        if isinstance(wanted, list):
            look_up = [one_line(str(each)) for each in wanted if str(each).strip()]
        if look_up and not {normalize_key(key) for key in value} & _KINDS:
            value = {"queries": [], "insights": [], **value}
    plan = parse_plan(value, repairs)
    return FoldedPlan(**plan.model_dump(), look_up=list(dict.fromkeys(look_up))[:MAX_LOOK_UPS])


LOOK_UP_RULE: Final = """\
The graph has too many nodes to name all. First list in `lookUp` the names, or groups such as `Company: A`, that you need \
to see. They are shown to you, and you answer again."""
_LOOKED_UP: Final = (
    "Answer again with the whole plan. Leave `lookUp` empty unless you need to see more."
)


def looked_up_message(lines: Sequence[str]) -> str:
    """Shows what the Observer has looked up, and asks for the plan."""
    return "\n\n".join([wrap_section("looked_up", "\n".join(lines)), _LOOKED_UP])


_LISTS: Final[Mapping[str, tuple[str, int, Mapping[str, int]]]] = {
    "queries": ("objective", MAX_QUERIES, {"searchHints": MAX_HINTS, "answers": MAX_ANSWERS}),
    "insights": ("observation", MAX_INSIGHTS, {"relevantNodeIds": MAX_NODES}),
}
"""For each list of a plan, the field that an item must have, its maximum length, and those of the lists in an item."""


def parse_plan(value: Any, repairs: Repairs) -> ObserverPlan:
    """Parses the plan in a model's answer; repeated or empty items are dropped, long ones are cut.

    Raises ValueError if it contains no plan.
    """
    original = value
    if isinstance(value, list) and all(isinstance(item, dict) for item in value) and value:
        value = _combine_items(value)
    if isinstance(value, dict) and not {normalize_key(key) for key in value} & _KINDS:
        value = _combine_items([value])
    if value is not original:
        repairs.add("The plan was put together from its parts.")
    plan = fit_to_schema(ObserverPlan, value, repairs, salvage=True)
    if not isinstance(plan, dict):
        raise ValueError("it is not a JSON object with the lists queries and insights")
    listed: dict[str, list[dict[str, Any]]] = {}
    for kind, (key, _, _) in _LISTS.items():
        plan[kind] = _without_nothing(plan[kind], kind, key, repairs)
        listed[kind] = [item for item in plan[kind] if str(item.get(key) or "").strip()]
        if silent := len(plan[kind]) - len(listed[kind]):
            repairs.add(f"{silent} {kind} said nothing and were left out.")
    if any(plan[kind] for kind in _LISTS) and not any(listed.values()):
        raise ValueError("no query has an objective, and no insight an observation")
    if not any(listed.values()) and not plan["skipped"] and not _is_empty(value):
        raise ValueError(
            "it has no queries or insights that can be read; if nothing is worth doing, leave both lists empty"
        )
    for kind, (key, most, limits) in _LISTS.items():
        distinct = without_repeats(listed[kind], kind, repairs, partial(_letters, key))
        limited = cut_list(distinct, most, kind, repairs)
        listed[kind] = [_bounded(item, limits, repairs) for item in limited]
    skipped = cut_list(plan["skipped"], MAX_SKIPPED, "skipped items", repairs)
    return ObserverPlan.model_validate({**listed, "skipped": skipped})


def _is_empty(value: Any) -> bool:
    """Whether an answer has one of the lists of a plan, and in them nothing but texts and objects, which can be read."""
    parts = [value, *value.values()] if isinstance(value, dict) else []
    given = [
        inner
        for part in parts
        if isinstance(part, dict)
        for key, inner in part.items()
        if normalize_key(key) in _LISTS
    ]
    items = [item for inner in given for item in (inner if isinstance(inner, list) else [inner])]
    return bool(given) and all(item is None or isinstance(item, str | dict) for item in items)


def _letters(key: str, item: Mapping[str, Any]) -> str:
    return normalize_key(item[key]) or str(item[key])


_NOTHING: Final = re.compile(
    r"\W*(?:(?:no|none|nothing|nil|null|n\W?a|not applicable|undefined|empty)(?: new| more)?"
    r"(?: quer(?:y|ies)| insights?| items?| needed| required| to (?:do|plan))*)?\W*",
    re.IGNORECASE,
)
"""A text that says that there is no item."""


def _without_nothing(
    items: Sequence[dict[str, Any]], kind: str, key: str, repairs: Repairs
) -> list[dict[str, Any]]:
    """Leaves out items such as "none" or "N/A". An item without a text stays: the model may be asked again."""
    remaining = [item for item in items if not _says_nothing(str(item.get(key) or "").strip())]
    if len(remaining) < len(items):
        repairs.add(f"{kind} said that there are none.")
    return remaining


def _says_nothing(text: str) -> bool:
    has_words = any(map(str.isalnum, text))
    return bool(text) and (not has_words or _NOTHING.fullmatch(text) is not None)


_KINDS: Final = frozenset({"queries", "insights", "skipped", "plan"})


def _combine_items(items: Sequence[Any]) -> dict[str, Any]:
    """Separate items or parts of a plan, combined into one plan."""
    plan: dict[str, list[Any]] = {}
    for item in items:
        keys = {normalize_key(key): key for key in item}
        for kind in ("queries", "insights", "skipped"):
            if kind in keys:
                part = item[keys[kind]]
                plan.setdefault(kind, []).extend(part if isinstance(part, list) else [part])
        if not keys.keys() & _KINDS:
            is_insight = bool(
                keys.keys() & {"observation", "synthesisdirection", "relevantnodeids"}
            )
            plan.setdefault("insights" if is_insight else "queries", []).append(item)
    return plan


def _bounded(item: dict[str, Any], limits: Mapping[str, int], repairs: Repairs) -> dict[str, Any]:
    """`item` with texts and lists of limited length, and lists without repetitions."""
    bounded = dict(item)
    for key, value in item.items():
        if key in limits:
            distinct = without_repeats(value, key, repairs)
            hints = [cut_text(text, MAX_HINT_CHARS) for text in distinct]
            bounded[key] = cut_list(hints, limits[key], key, repairs)
        elif isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
            bounded[key] = cut_text(value, MAX_TEXT_CHARS)
            repairs.add(f"{key} was too long and was cut.")
    return bounded


def first_query(mission: str) -> PlannedQuery:
    """The mission itself as a query, for an empty graph whose Observer plans nothing."""
    mission_text = one_line(mission)
    return PlannedQuery(
        objective=cut_text(mission_text, MAX_TEXT_CHARS),
        reasoning="The graph is empty and no query was planned, so the mission itself is looked up.",
        search_hints=[cut_text(mission_text, MAX_HINT_CHARS)],
        answers=[],
    )


RULES: Final = f"""\
Plan one iteration of an agent. Others search, write the graph and analyze.

Plan two to four items, the most useful first, more only to read news:
- queries: facts that the mission needs and the graph lacks or has only in stale form, or that an open investigation \
request asks for. One objective each: what, of whom, for when. `answers` has the ids of the requests that it answers.
- insights: what several nodes show together and no analysis covers: a change, a contradiction, dates that meet. \
`relevantNodeIds` has their names.
`news` is new and unread. Plan queries for changed pages and for documents that bear on the mission: up to five on one \
subject in a query, with their addresses in the objective. List in `skipped` what does not bear on it, and why. The rest \
is offered again.
Do not plan what the graph answers, what was asked recently, with or without a result, or what an analysis covers. Both \
lists may be empty.
`memories` are the owner's words: follow wishes within the mission, and take facts as known.
{DATA_ONLY}"""


def search_query(mission: str) -> PlannedQuery:
    """A search for what is new about the mission, for a plan without queries when a search is due."""
    mission_text = one_line(mission)
    return PlannedQuery(
        objective=cut_text(f"Find out what is new: {mission_text}", MAX_TEXT_CHARS),
        reasoning="The last search is too long ago.",
        search_hints=[cut_text(mission_text, MAX_HINT_CHARS)],
        answers=[],
    )


def user_message(
    mission: str,
    graph_context: str,
    now: datetime,
    memories: str = "",
    news: Sequence[str] = (),
    *,
    owner_feedback: str = "",
    is_folded: bool = False,
) -> str:
    """`owner_feedback` has a line for each advice that the owner answered."""
    parts = [wrap_section("mission", mission), wrap_section("graph_context", graph_context)]
    if memories:
        parts.append(wrap_section("memories", memories))
    if owner_feedback:
        parts += [wrap_section("owner_feedback", owner_feedback), feedback.RULE]
    if news:
        parts.append(wrap_section("news", "\n".join(news)))
    if is_folded:
        parts.append(LOOK_UP_RULE)
    return "\n\n".join([*parts, now_line(now)])


_REPLAN = """\
These items are not done: the query was asked recently, the graph has its answer, or an analysis covers the insight. \
Answer with the whole plan again. Keep the other items. Replace these only with what is new and worth doing. Both lists \
may be empty."""


EMPTY_PLAN: Final = """\
Your plan is empty, and so is the graph. Answer with a plan of one to three queries, each with an objective and search \
hints, that begin to find out what the mission asks."""
"""Sent to an Observer that plans nothing for an empty graph."""


def replan_message(repeats: Sequence[Repeat]) -> str:
    """Asks for a new plan if items repeat known results."""
    lines = [
        f"- {repeat.kind} {quote_name(repeat.text)}: the same as {quote_name(repeat.repeated)}"
        for repeat in repeats
    ]
    return "\n\n".join([wrap_section("repeats", "\n".join(lines)), _REPLAN])
