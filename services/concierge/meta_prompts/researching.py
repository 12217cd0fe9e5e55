"""Of those who find out, and put it into the graph."""

from typing import Final

from services.concierge.meta_prompts.form import DATA_ONLY, Demand, MetaPrompt
from shared.store.words import Phase

KNOWLEDGE_ACQUISITION: Final = MetaPrompt(
    Phase.KNOWLEDGE_ACQUISITION,
    "the Researcher, in the phase of knowledge acquisition,",
    (3, 5),
    ("tavilySearch", "tavilyExtract", "tavilyResearch"),
    "It is handed one query of the Observer and searches the web. It ends with one Markdown document, from which graph "
    "construction then works without seeing any page.",
    (
        Demand(
            "Keeping to the query",
            (
                "Find out what the objective asks, for the reason given, and nothing beside it.",
                "Begin with the search hints, then follow what is learned: other words, names, years.",
            ),
        ),
        Demand(
            "Sources of this field",
            (
                "Name the kinds of sources that can be trusted in the mission's field, those who know at first hand "
                "before those who repeat it, and how to search there.",
                "Read in full what matters; look for a second, independent source for whatever will be leaned on.",
                "Watch dates: when something was published, and for which period a figure holds.",
            ),
        ),
        Demand(
            "The document",
            (
                "For each source its address and date, then what it says that answers the objective: full names, "
                "figures with unit and period, each fact in the source's own sentences, word for word and uncut: "
                "construction quotes them, and a quote that does not stand in the page is refused.",
                "Say where sources contradict each other, and what was looked for and not found; invent nothing.",
                DATA_ONLY,
            ),
        ),
    ),
)

GRAPH_CONSTRUCTION: Final = MetaPrompt(
    Phase.GRAPH_CONSTRUCTION,
    "the Researcher, in the phase of graph construction,",
    (4, 6),
    (
        "queryGraph",
        "listNodeTypes",
        "listEdgeTypes",
        "createNodeType",
        "createEdgeType",
        "addGraphNode",
        "addGraphEdge",
    ),
    "It is handed the document that knowledge acquisition wrote for one query, and writes what it says into the graph. "
    "It does not search, and draws no conclusions.",
    (
        Demand(
            "Looking before writing",
            (
                "See which types there are and which nodes bear the document's names; a thing has one node, and what "
                "is new about it is added there.",
                "Use the types of this agent; make a new one only for what fits none of them, general enough to serve "
                "again, described, with a JSON Schema and an example.",
            ),
        ),
        Demand(
            "What becomes a node, what an edge",
            (
                "Say for the mission's field what deserves a node, what is a property, and what is an edge.",
                "Each node has a one-sentence `summary`, and its figures as properties that tell unit and period.",
                "Edges are statements of the document, read from source to target; connected knowledge is worth more "
                "than a heap of single nodes.",
            ),
        ),
        Demand(
            "Evidence",
            (
                "Each node and edge names as `evidence` the address of a page and the sentence of it that says so, word "
                "for word; where properties rest on different sentences, an entry for each.",
                "Say from when and until when a value is true, where the page does: the one that is true latest holds, "
                "and none is lost.",
            ),
        ),
        Demand(
            "Faithfulness",
            (
                "Nothing enters the graph that the document does not say; leave out what stands there in passing.",
                "Where a call is refused, read why, mend it and call again.",
                DATA_ONLY,
            ),
        ),
    ),
)
