"""What forms send. An empty field is one that was not given."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from services.api.commands.agents import FeedbackRounds, Interval, Mission, Name
from shared.agents import configuration
from shared.database.text import refuse_nul
from shared.enums import Phase
from shared.schemas.agents import PromptedPhase

LONGEST_VERSION_CHARACTERS: Final = 40


def _lines(text: object) -> object:
    """Browsers end the lines of a form's text by CR LF."""
    return text.replace("\r\n", "\n") if isinstance(text, str) else text


Lines = BeforeValidator(_lines)
UNLESS_BLANK: Final = BeforeValidator(lambda given: given or None)
"""Forms send what was not chosen too, as nothing."""
Version = Annotated[str, Field(max_length=LONGEST_VERSION_CHARACTERS)]
"""What the form was filled from: nobody overwrites what they have not seen."""
ModelName = Annotated[str, Field(max_length=200), AfterValidator(refuse_nul)]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class General(Form):
    version: Version
    name: Name
    interval_seconds: Interval
    feedback_rounds: FeedbackRounds


class ModelsOfPhases(Form):
    """A phase without a model uses the installation's."""

    version: Version
    observer: ModelName | None = None
    knowledge_acquisition: ModelName | None = None
    graph_construction: ModelName | None = None
    analysis_generation: ModelName | None = None
    advice_generation: ModelName | None = None
    conversation: ModelName | None = None
    configuration: ModelName | None = None

    @property
    def models(self) -> dict[Phase, str]:
        given = self.model_dump(exclude={"version"}, exclude_none=True)
        return {Phase(phase): model.strip() for phase, model in given.items() if model.strip()}


class Anew(Form):
    mission: Annotated[Mission, Lines] | None = None
    keep: list[PromptedPhase] = []


class EditedPrompt(Form):
    """`version` is that of the phase's own prompt: who edits another one changes nothing here."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1)]
    prompt: Annotated[str, Lines, AfterValidator(configuration.checked)]


class Deletion(Form):
    name: Annotated[str, Field(max_length=1000)] = ""
