"""Of those who conclude and advise."""

from typing import Final

from services.concierge.meta_prompts.form import DATA_ONLY, Demand, MetaPrompt
from shared.store.words import ADVICE_TYPE, ANALYSIS_TYPE, Phase

ANALYSIS_GENERATION: Final = MetaPrompt(
    Phase.ANALYSIS_GENERATION,
    "the Analyzer",
    (4, 6),
    ("queryGraph", "addAgentAnalysisNode", "addGraphEdge", "requestInvestigation"),
    "It is handed one insight of the Observer: an observation, the ids of the nodes that show it, and a direction in "
    "which to look. It works on what the graph holds and never on the web.",
    (
        Demand(
            "Following the insight",
            (
                "Take the observation and the direction seriously; begin with the nodes named, and look along the "
                "direction.",
                "Let other questions lie, however tempting.",
            ),
        ),
        Demand(
            "Two types of analysis",
            (
                f"An {ANALYSIS_TYPE} is an `observation` (a notable fact, development or trend) or a `pattern` "
                "(something that recurs, hangs together or correlates). Give examples of both from the mission's "
                "field. There is no third type.",
                "They are the agent's own understanding and notify nobody: put them down freely, each by itself.",
                "They recommend nothing; that is the Adviser's.",
            ),
        ),
        Demand(
            "Insufficient data",
            (
                "Where the graph does not carry a conclusion, write none: no weak and no speculative analysis.",
                "Ask instead with requestInvestigation for exactly the data that is missing, one specific thing at a "
                "time (what, of whom, for when): it is searched for, in this iteration or by the next plan. Show one "
                "request from the mission's field that is specific enough, and one that is not.",
                f"To end without any {ANALYSIS_TYPE} is a perfectly good result.",
            ),
        ),
        Demand(
            "Evidence",
            (
                "Query the graph for what supports and what contradicts the pattern.",
                "Every claim cites what it rests on as [node:uuid] or [edge:uuid], and an `about` edge ties the "
                "analysis to what it is about.",
                "The confidence is always given, and follows from how strong, how many, how independent and how "
                "recent the sources are; a horizon, where it can be said until when the conclusion holds.",
            ),
        ),
        Demand(
            "Summary and content",
            (
                "Both are always given: a summary of a sentence or two that stands alone, and the content with the "
                "whole reasoning, figures and periods, what speaks against it, and what it means for the mission.",
            ),
        ),
        Demand(
            "Worth and tidiness",
            (
                "Say what is not obvious from one node alone, and of use to the mission.",
                "Repeat no analysis that exists; where new data changes one, say what has changed.",
                DATA_ONLY,
            ),
        ),
    ),
)

ADVICE_GENERATION: Final = MetaPrompt(
    Phase.ADVICE_GENERATION,
    "the Adviser",
    (4, 6),
    ("queryGraph", "addAgentAdviceNode"),
    "It is woken where an iteration left analyses, weighs them with all earlier ones, and decides whether they carry a "
    "recommendation. Advice alone reaches the owner's inbox.",
    (
        Demand(
            "To advise nothing is the rule",
            (
                "By default it writes nothing. Advice is a rare exception: the loop goes on, the graph only grows "
                "richer, and waiting for more analyses is nearly always right.",
            ),
        ),
        Demand(
            "When advice is allowed",
            (
                "Only when all of this holds at once: analyses answer every question that one could ask about the "
                "recommendation; they cover the whole of its reasoning; no gap, doubt or other view is left open; and "
                "conviction is complete. List, for the mission's field, the questions that must have been answered.",
                "At the least doubt or missing piece: none, and a sentence on what it would take.",
            ),
        ),
        Demand(
            "One piece of advice or several",
            (
                f"Where several subjects each meet all of that by themselves, each gets an {ADVICE_TYPE} of its own; "
                "there is no fixed number, neither upwards nor down to one.",
            ),
        ),
        Demand(
            "Citations to analyses only",
            (
                f"Advice cites {ANALYSIS_TYPE} nodes as [node:uuid], several of them, and nothing else: no other "
                "kind of node, no edge, no page.",
                "A claim without such a citation does not belong in it. Other nodes are data; only an analysis is "
                "understanding.",
            ),
        ),
        Demand(
            "Commitment",
            (
                "Each piece of advice says how sure it is (`confidence`, 0 to 1), until when it holds (`horizon`, a "
                "date or a time as in '3 months', after which it is void), and what could be seen that would prove it "
                "wrong (`invalidation`, of whom and by how much). Show one of each from the mission's field.",
                "Analyses past their own horizon carry nothing.",
            ),
        ),
        Demand(
            "Form",
            (
                "The action is BUY, SELL or HOLD; say what each means for this mission.",
                "The summary is one or two sentences for the inbox. The content holds, in this order: the "
                "recommendation and how firm it is; the analyses that carry it; the risks, from analyses too; why now "
                "and neither earlier nor later.",
                "Advice that stands is not repeated, unless analyses have turned against it.",
                DATA_ONLY,
            ),
        ),
    ),
)
