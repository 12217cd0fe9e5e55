"""What the model answers first when it configures an agent: a name and six system prompts."""

from functools import partial
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from shared.store import names, prompts
from shared.store.words import PROMPTED, Phase

NAME_WORDS: Final = (2, 4)
"""What the model is asked for; a name of one word will do."""
SHORTEST_PROMPT_CHARACTERS: Final = 200
"""Less guides nobody."""


class Shape(BaseModel):
    # No defaults and nothing extra: strict JSON Schemas demand it. They know no lengths either, so those are checked
    # by validators of our own, which do not show in the schema.
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


def _name(text: str) -> str:
    name = names.checked(text)
    fewest, most = NAME_WORDS
    if (count := len(name.split())) > most:
        raise ValueError(f"{name!r} has {count} words; give {fewest} to {most}")
    return name


Prompt = Annotated[
    str, AfterValidator(partial(prompts.checked, shortest=SHORTEST_PROMPT_CHARACTERS))
]


class AgentConfiguration(Shape):
    name: Annotated[str, AfterValidator(_name)] = Field(
        description="Short and memorable, 2 to 4 words, in the language of the mission"
    )
    conversation_system_prompt: Prompt = Field(description="For speaking with the owner")
    observer_system_prompt: Prompt = Field(description="For planning each iteration")
    knowledge_acquisition_system_prompt: Prompt = Field(description="For searching the web")
    graph_construction_system_prompt: Prompt = Field(
        description="For writing what was found into the graph"
    )
    analysis_generation_system_prompt: Prompt = Field(
        description="For drawing conclusions from the graph"
    )
    advice_generation_system_prompt: Prompt = Field(
        description="For recommending, as a rare exception"
    )

    @property
    def prompts(self) -> dict[Phase, str]:
        return {phase: getattr(self, f"{phase}_system_prompt") for phase in PROMPTED}

    @model_validator(mode="after")
    def _all_differ(self) -> Self:
        if len(set(self.prompts.values())) < len(PROMPTED):
            raise ValueError("two system prompts are the same; write each for its own phase")
        return self
