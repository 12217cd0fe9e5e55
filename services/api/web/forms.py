"""Forms of pages: what was typed, whether it is valid, and what to say beside each field.

A route takes `Annotated[Submitted[SomeForm], submitted(SomeForm)]`. Where its `model` is None, the route answers with the
page of the form again: it passes the submission to the template as `form`, and `form.status` as the status. The template
shows `form.text(name)` and the macros `ui.invalid` and `ui.field_error`. An empty field counts as not sent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Generic, Self, TypeVar, get_origin

from fastapi import Depends
from fastapi import Form as FormBody
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from services.api.http.problem_details import ProblemError
from services.api.resources.accounts.api import NewToken
from services.api.resources.agents.commands import (
    Domains,
    FeedbackRounds,
    Interval,
    Mission,
    Name,
    NewAgent,
)
from services.api.resources.costs.api import CallsPerDay, UsdPerDay
from services.api.web.filters import Verbatim
from services.api.web.form_errors import FORM, as_sentence, errors_by_field, label
from shared.agents import configuration
from shared.agents.fields import (
    INTERVAL_SECONDS,
    Actions,
    ArchiveDate,
    EntailmentShare,
    VerificationUsd,
)
from shared.billing.budgets import Caps
from shared.database.text import refuse_nul
from shared.durations import format_duration, parse_duration
from shared.enums import AccessScope, Phase
from shared.schemas.agents import PromptedPhase

M = TypeVar("M", bound=BaseModel)
_SEQUENCES: Final = (list, set, frozenset, tuple)


@dataclass(frozen=True)
class FormState:
    """A form as a page shows it: the texts of its fields, and a sentence for each that is wrong."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK

    @classmethod
    def filled(cls, **values: object) -> Self:
        """The form with values that are stored. None is an empty field, a list one with a line for each item."""
        return cls({name: _texts(value) for name, value in values.items()})

    def text(self, name: str) -> str:
        """What a field shows; several values are lines."""
        return Verbatim("\n".join(self.values.get(name, ())))

    def has(self, name: str, value: str = "true") -> bool:
        """Whether a box or an option is chosen."""
        return value in self.values.get(name, ())

    def title(self, name: str) -> str:
        """What a field is called at the beginning of a line."""
        words = label(name)
        return f"{words[:1].upper()}{words[1:]}"

    def with_error(
        self, name: str, sentence: str, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
    ) -> Self:
        """`name` is a field or FORM."""
        return replace(self, errors={**self.errors, name: as_sentence(sentence)}, status=status)

    def refused(self, error: ProblemError, fields: Mapping[str, str]) -> Self:
        """The form after a command refused it. `fields` is the field for each kind of problem; of others it is the form."""
        return self.with_error(fields.get(error.kind, FORM), str(error), error.status)


@dataclass(frozen=True)
class Submitted(FormState, Generic[M]):
    """A form that was sent. `model` is None where it is not valid."""

    model: M | None = None


class _AnyForm(BaseModel):
    """Any fields; FastAPI reads the body of the request for it, before a transaction begins."""

    model_config = ConfigDict(extra="allow")


def submitted(model: type[M]) -> Any:
    """A dependency that reads the form of the request as `Submitted[model]`."""

    def read(body: Annotated[_AnyForm, FormBody()]) -> Submitted[M]:
        return validated(model, body.model_extra or {})

    return Depends(read)


def validated(model: type[M], fields: Mapping[str, object]) -> Submitted[M]:
    """Validates the fields of a form."""
    values = {name: _texts(value) for name, value in fields.items()}
    try:
        read = model.model_validate(
            {name: _value(model, name, values[name]) for name in _sent(values)}
        )
    except ValidationError as error:
        return Submitted(
            values, errors_by_field(model, error), HTTPStatus.UNPROCESSABLE_ENTITY, None
        )
    return Submitted(values, model=read)


def _texts(value: object) -> Sequence[str]:
    if value is None:
        return ()
    if isinstance(value, bool):
        return ("true",) if value else ()
    return tuple(map(str, value)) if isinstance(value, _SEQUENCES) else (str(value),)


def _sent(values: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return [name for name, texts in values.items() if any(texts)]


def _value(model: type[BaseModel], name: str, texts: Sequence[str]) -> str | Sequence[str]:
    info = model.model_fields.get(name)
    if info is not None and get_origin(info.annotation) in _SEQUENCES:
        return list(texts)
    return texts[-1]


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


def _split_actions(text: object) -> object:
    """A text area has one action a line: `BUY: Begin or do more.` Raises ValueError if one has no meaning."""
    if not isinstance(text, str):
        return text
    lines = [line.partition(":") for line in text.splitlines() if line.strip()]
    for word, colon, _ in lines:
        if not colon:
            raise ValueError(
                f"write each action with what it means, as in BUY: begin or do more, not “{word.strip()}”"
            )
    return {word.strip(): meaning for word, _, meaning in lines}


WrittenActions = Annotated[Actions, BeforeValidator(_split_actions)]


def _interval_seconds(value: object) -> object:
    """Reads an interval as people write it: `5 min`. Raises ValueError outside the limits."""
    if not isinstance(value, str):
        return value
    seconds = parse_duration(value)
    shortest, longest = INTERVAL_SECONDS
    if not shortest <= seconds <= longest:
        raise ValueError(
            f"enter a duration from {format_duration(shortest)} to {format_duration(longest)}, not “{value.strip()}”"
        )
    return seconds


WrittenInterval = Annotated[Interval, BeforeValidator(_interval_seconds)]
INTERVALS: Final = ("1 min", "5 min", "15 min", "1 h", "6 h", "1 d")
"""Suggestions for the field of an interval."""


class NewAgentForm(NewAgent):
    budget_usd_per_day: UsdPerDay | None = None
    """None: the agent may spend what the installation may."""
    interval_seconds: WrittenInterval = 300
    max_interval_seconds: WrittenInterval | None = None
    preferred_domains: Annotated[Domains, SplitDomains] = Field(default_factory=list)
    barred_domains: Annotated[Domains, SplitDomains] = Field(default_factory=list)
    actions: WrittenActions | None = None
    """None: BUY, HOLD and SELL."""
    corpus: None = None
    """Only the command line adds a folder to the sandbox, and names it."""


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SettingsForm(Form):
    """The settings of an agent. A box that is not checked is not sent; without a model, a phase uses the installation's."""

    version: Version
    name: Name
    interval_seconds: WrittenInterval
    max_interval_seconds: WrittenInterval | None = None
    preferred_domains: Annotated[Domains, SplitDomains] = []
    barred_domains: Annotated[Domains, SplitDomains] = []
    archive_date: ArchiveDate | None = None
    feedback_rounds: FeedbackRounds = 0
    advice_from_one_analysis: bool = False
    actions: WrittenActions | None = None
    """None: they stay."""
    verification_usd_per_day: VerificationUsd | None = None
    entailment_share: EntailmentShare
    observer: ModelName | None = None
    knowledge_acquisition: ModelName | None = None
    graph_construction: ModelName | None = None
    analysis_generation: ModelName | None = None
    advice_generation: ModelName | None = None
    verification: ModelName | None = None
    conversation: ModelName | None = None
    configuration: ModelName | None = None
    usd_per_day: UsdPerDay | None = None
    calls_per_day: CallsPerDay | None = None

    @property
    def models(self) -> dict[Phase, str]:
        named = {phase: getattr(self, phase.value) for phase in Phase}
        return {phase: model.strip() for phase, model in named.items() if model and model.strip()}

    @property
    def caps(self) -> Caps:
        return Caps(self.usd_per_day, self.calls_per_day)


class ConfigureForm(Form):
    mission: Annotated[Mission, Lines] | None = None
    keep: list[PromptedPhase] = []


class PromptForm(Form):
    """`version` is that of the phase's own prompt: edits of other phases do not conflict."""

    version: Annotated[int, Field(ge=0, le=2**31 - 1)]
    prompt: Annotated[str, Lines, AfterValidator(configuration.validate_prompt)]


class DeletionForm(Form):
    """Not `name`, so that the page's form of the settings has no field of the same name."""

    typed_name: Annotated[str, Field(max_length=1000)] = ""


class NewTokenForm(NewToken):
    """Without a box that is checked no scopes are sent, which are not the usual ones."""

    scopes: Annotated[frozenset[AccessScope], Field(min_length=1)]
