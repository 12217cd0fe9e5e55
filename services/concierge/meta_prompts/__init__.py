"""What each of an agent's six system prompts must demand, whatever its mission. The model fills it with the mission."""

from typing import Final

from services.concierge.meta_prompts.concluding import ADVICE_GENERATION, ANALYSIS_GENERATION
from services.concierge.meta_prompts.form import MetaPrompt
from services.concierge.meta_prompts.planning import CONVERSATION, OBSERVER
from services.concierge.meta_prompts.researching import GRAPH_CONSTRUCTION, KNOWLEDGE_ACQUISITION

__all__ = ["META_PROMPTS", "MetaPrompt"]

META_PROMPTS: Final = (
    CONVERSATION,
    OBSERVER,
    KNOWLEDGE_ACQUISITION,
    GRAPH_CONSTRUCTION,
    ANALYSIS_GENERATION,
    ADVICE_GENERATION,
)
