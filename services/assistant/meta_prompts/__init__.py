"""What each of an agent's six system prompts must demand, whatever its mission. The model fills it with the mission."""

from typing import Final

from services.assistant.prompts.meta import (
    ADVICE_GENERATION,
    ANALYSIS_GENERATION,
    CONVERSATION,
    GRAPH_CONSTRUCTION,
    KNOWLEDGE_ACQUISITION,
    OBSERVER,
    MetaPrompt,
)

__all__ = ["META_PROMPTS", "MetaPrompt"]

META_PROMPTS: Final = (
    CONVERSATION,
    OBSERVER,
    KNOWLEDGE_ACQUISITION,
    GRAPH_CONSTRUCTION,
    ANALYSIS_GENERATION,
    ADVICE_GENERATION,
)
