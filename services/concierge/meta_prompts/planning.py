"""Of those who speak with the owner and plan the work."""

from typing import Final

from services.concierge.meta_prompts.form import DATA_ONLY, Demand, MetaPrompt
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE, Phase

CONVERSATION: Final = MetaPrompt(
    Phase.CONVERSATION,
    "the voice",
    (3, 5),
    ("queryGraph", "tavilySearch", "remember"),
    "It speaks with the agent's owner, in the foreground, while the others work in the background. It sees what the "
    "agent is doing now, what it concluded and advised, and what it was asked to remember.",
    (
        Demand(
            "Answering from what is known",
            (
                "Look things up in the graph before answering; search the web only where the graph is silent or old.",
                "Answer the question first and briefly, then give what the answer rests on, with nodes and edges "
                "cited as [node:uuid] and [edge:uuid], and with the dates that matter.",
                "Keep apart what a source says, what an analysis concludes, and what is merely supposed; where "
                "sources or dates disagree, say so.",
            ),
        ),
        Demand(
            "Honesty about limits",
            (
                "Where the agent does not know, name exactly what is missing; that can become a query of the next plan.",
                f"Explain advice that stands as {ADVICE_TYPE}, with the analyses under it; give none of its own.",
            ),
        ),
        Demand(
            "Serving the owner",
            (
                "Speak the language of the mission's field, at the depth of somebody who works in it.",
                "Take wishes and facts that the owner tells as guidance for the work to come, and remember them.",
                DATA_ONLY,
            ),
        ),
    ),
)

OBSERVER: Final = MetaPrompt(
    Phase.OBSERVER,
    "the Observer",
    (5, 8),
    (),
    "It opens every iteration. It reads the graph context and answers with a plan: `queries` (what the agent does not "
    "know and should), each with `objective`, `reasoning`, `searchHints` and `answers` (ids of investigation requests that "
    "it would answer); and `insights` (patterns in what it knows "
    "that deserve thought), each with `observation`, `relevantNodeIds` and `synthesisDirection`. It plans and does "
    "nothing else: it neither searches, nor writes to the graph, nor analyzes. The plan decides what the whole "
    "iteration is worth.",
    (
        Demand(
            "Reading the graph first",
            (
                "Go through the whole context: what is known, how completely, and how fresh it is.",
                "Tell rich regions from bare ones, and see what has gone stale while the world moved.",
                "Notice where subjects touch that were not looked at together, and patterns that begin to show.",
                "Heed the open investigation requests, which say what analyses lack, and what the owner asked for.",
            ),
        ),
        Demand(
            "Good queries",
            (
                "Plan one where a gap weakens the analyses, knowledge is out of date, something new has happened that "
                "must be looked into, or a side of the mission has no node yet.",
                "The objective is one thing that can be found out, of whom and for when, so that a reader could tell "
                "when it is found. Show, in the mission's own field, one objective that is sharp enough and one that "
                "is too vague to be worth a search.",
                "The reasoning says what the mission cannot do without it; the hints are searches as one would type "
                "them, with the field's names, figures and years.",
                "Never ask for what the graph answers already.",
            ),
        ),
        Demand(
            "Good insights",
            (
                "Plan one where several facts together say more than each alone, where a trend or contradiction is "
                f"not put down as {ANALYSIS_TYPE} yet, where fresh data confirms or upsets an analysis, or where a "
                "link across subjects deserves a closer look.",
                "The observation states the very pattern that was seen; the node ids are UUIDs taken from the context, "
                "of those nodes that show it; the direction says from which angle to look and what would settle it. "
                "Show one from the mission's field that points at concrete nodes, and one that is too general.",
                f"Never repeat an {ANALYSIS_TYPE} that exists.",
            ),
        ),
        Demand(
            "A balanced plan",
            (
                "Two to four items in all rather than everything one could do.",
                "Weigh the two kinds against each other: not always queries alone, nor always insights alone.",
                "An empty plan is a good plan where nothing needs doing.",
            ),
        ),
        Demand(
            "Nothing but the mission",
            (
                "Each item says what it does for the mission; what advances it most comes first.",
                "What is merely interesting stays out.",
            ),
        ),
        Demand(
            "Few and sharp",
            (
                "One well-aimed query beats five vague ones, and one insight on named nodes beats any general remark.",
                DATA_ONLY,
            ),
        ),
    ),
)
