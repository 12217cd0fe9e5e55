"""Form models. An empty field counts as not sent."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from services.api.commands.agents import (
    Domains,
    FeedbackRounds,
    Interval,
    Mission,
    Name,
    NewAgent,
)
from shared.agents import configuration
from shared.agents.fields import EntailmentShare, EntailmentUsd
from shared.database.text import refuse_nul
from shared.enums import Phase
from shared.schemas.agents import PromptedPhase

MAX_VERSION_CHARS: Final = 40


def _lines(text: object) -> object:
    """Browsers end the lines of a form's text with CR LF."""
    return text.replace("\r\n", "\n") if isinstance(text, str) else text


Lines = BeforeValidator(_lines)
UNLESS_BLANK: Final = BeforeValidator(lambda text: text or None)
"""Forms send unselected options too, as empty strings."""
Version = Annotated[str, Field(max_length=MAX_VERSION_CHARS)]
"""The version that the form was filled from, which prevents lost updates."""
ModelName = Annotated[str, Field(max_length=200), AfterValidator(refuse_nul)]


def _split_domains(texts: object) -> object:
    """A text area has one domain a line; commas and blanks separate them too."""
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return texts
    return [domain for text in texts for domain in text.replace(",", " ").split()]


SplitDomains = BeforeValidator(_split_domains)


EmptyIsNone = BeforeValidator(lambda value: value or None)


class NewAgentForm(NewAgent):
    max_interval_seconds: Annotated[Interval | None, EmptyIsNone] = None
    preferred_domains: Annotated[Domains, SplitDomains] = Field(default_factory=list)
    barred_domains: Annotated[Domains, SplitDomains] = Field(default_factory=list)


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class GeneralForm(Form):
    version: Version
    name: Name
    interval_seconds: Interval
    max_interval_seconds: Annotated[Interval | None, EmptyIsNone] = None
    feedback_rounds: FeedbackRounds
    advice_from_one_analysis: bool = False
    """A box that is not checked is not sent."""
    entailment_usd_per_day: EntailmentUsd
    entailment_share: EntailmentShare
    preferred_domains: Annotated[list[str], SplitDomains] = []
    """Not validated yet, as are the barred ones, so that the form can be shown again with them."""
    barred_domains: Annotated[list[str], SplitDomains] = []


class ModelsForm(Form):
    """Phases without a model use the installation's."""

    version: Version
    observer: ModelName | None = None
    knowledge_acquisition: ModelName | None = None
    graph_construction: ModelName | None = None
    analysis_generation: ModelName | None = None
    advice_generation: ModelName | None = None
    entailment_check: ModelName | None = None
    conversation: ModelName | None = None
    configuration: ModelName | None = None

    @property
    def models(self) -> dict[Phase, str]:
        fields = self.model_dump(exclude={"version"}, exclude_none=True)
        return {Phase(phase): model.strip() for phase, model in fields.items() if model.strip()}


class ConfigureForm(Form):
    mission: Annotated[Mission, Lines] | None = None
    keep: list[PromptedPhase] = []


class PromptForm(Form):
    """`version` is that of the phase's own prompt: edits of other phases do not conflict."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1)]
    prompt: Annotated[str, Lines, AfterValidator(configuration.validate_prompt)]


class DeletionForm(Form):
    name: Annotated[str, Field(max_length=1000)] = ""
