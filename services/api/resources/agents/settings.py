"""Pages of an agent's settings: one form for all of them, prompts with their history, deletion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import EventAfterCommit
from services.api.http.problem_details import ProblemError
from services.api.resources.agents import commands, model
from services.api.resources.agents.commands import ChangedAgent, NewConfiguration
from services.api.resources.costs import forecast, reports
from services.api.resources.costs import model as costs
from services.api.resources.costs.charts import Tiles, build_tiles, unit_of
from services.api.resources.costs.ledger import CostScope
from services.api.resources.graph import model as graph
from services.api.resources.graph.elements import PropertyRow, property_rows
from services.api.web.form_errors import FORM, label
from services.api.web.forms import (
    INTERVALS,
    ConfigureForm,
    DeletionForm,
    FormState,
    PromptForm,
    SettingsForm,
    Submitted,
    submitted,
)
from services.api.web.rendering import Page, PageResponse
from services.api.web.text import DiffRun, word_diff
from shared.agents import agents as agent_store
from shared.agents.model_choice import renamed_phases
from shared.billing import budgets as billing_budgets
from shared.durations import format_duration
from shared.enums import PROMPTED_PHASES, Phase
from shared.errors import PermanentError
from shared.hidden_text import without_hidden
from shared.runtime.settings import Settings
from shared.schemas.agents import PromptedPhase, PromptResponse
from shared.schemas.base import LARGEST_PAGE, AgentDetails, PageRequest
from shared.schemas.costs import BudgetResponse, BudgetUsage, ForecastResponse
from shared.schemas.graph import EdgeTypeDetails, NodeTypeDetails

router = APIRouter(prefix="/agents/{agent}/settings")

_ETAG: Final = '"{}.form"'
"""The start of the ETag of the form's version."""
_CAPS_HASH_CHARS: Final = 12
_FIELD_OF_PROBLEM: Final[Mapping[str, str]] = {
    "agent-name-taken": "name",
    "short-maximum": "max_interval_seconds",
    "contradictory-domains": "barred_domains",
}
_EMPTY: Final = FormState()
"""A form that was not sent, and shows nothing but its hints."""


@router.get("")
async def show_settings(
    access: OwnedAgent, page: PageResponse, saved: bool = False
) -> HTMLResponse:
    return await _settings_page(access, page, saved=saved)


@router.post("")
async def change_agent(
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[Submitted[SettingsForm], submitted(SettingsForm)],
) -> Response:
    """Saves all settings, or none."""
    if form.model is None:
        return await _settings_page(access, page, form=form)
    try:
        # A savepoint, so that after a rejection the page can be rendered in the same transaction.
        async with access.session.savepoint():
            await _apply(access, form.model)
    except ProblemError as error:
        return await _settings_page(access, page, form=form.refused(error, _FIELD_OF_PROBLEM))
    address = f"/agents/{access.agent.id}/settings?saved=true"
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


async def _apply(access: AgentAccess, form: SettingsForm) -> None:
    """Raises ProblemError (412) where a setting has changed since the form was filled."""
    version, _, caps_version = form.version.partition("_")
    # Budgets before agents, as everywhere: the other order could deadlock.
    await billing_budgets.lock_caps(access.session)
    usage = await costs.budget_usage(access.session, access.agent.id)
    if _caps_version(usage) != caps_version:
        raise ProblemError(
            HTTPStatus.PRECONDITION_FAILED,
            "changed",
            "The budget has changed since you loaded the page.",
        )
    await billing_budgets.cap_agent(access.session, access.agent.id, form.caps)
    settings = form.model_dump(include=set(ChangedAgent.model_fields))
    if form.actions is None:
        del settings["actions"]
    changes = ChangedAgent(**settings, models=form.models)
    await commands.change_agent(access, changes, _ETAG.format(version))


@router.post("/configure")
async def configure_agent(
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[Submitted[ConfigureForm], submitted(ConfigureForm)],
    afterwards: EventAfterCommit,
) -> Response:
    """Redirects to the agent's page, which shows the progress."""
    if form.model is None:
        return await _settings_page(access, page, configuring=form)
    await commands.configure(access, afterwards, NewConfiguration(**form.model.model_dump()))
    return RedirectResponse(f"/agents/{access.agent.id}", HTTPStatus.SEE_OTHER)


@router.post("/delete")
async def delete_agent(
    access: OwnedAgent,
    page: PageResponse,
    form: Annotated[Submitted[DeletionForm], submitted(DeletionForm)],
) -> Response:
    """Deletes the agent if its name was typed correctly: this cannot be undone."""
    if form.model is None:
        return await _settings_page(access, page, deleting=form)
    # The page shows the name without directions.
    names = (access.agent.name, without_hidden(access.agent.name))
    if form.model.typed_name.strip() not in names:
        sentence = f"This is not the agent's name. To delete the agent, type {access.agent.name}."
        deleting = form.with_error("typed_name", sentence)
        return await _settings_page(access, page, deleting=deleting)
    await commands.delete_agent(access)
    return RedirectResponse("/agents", HTTPStatus.SEE_OTHER)


async def _settings_page(
    access: AgentAccess,
    page: Page,
    *,
    saved: bool = False,
    form: FormState | None = None,
    configuring: FormState = _EMPTY,
    deleting: FormState = _EMPTY,
) -> HTMLResponse:
    """A form that was refused is shown with what was typed. Where a setting has changed meanwhile, `theirs` are the
    stored values that differ from what was typed.
    """
    agent = await model.get_agent(access, access.agent.id)
    budget = await costs.agent_budget(access.session, access.agent.id)
    stored = _stored(agent, budget.usage)
    has_changed = form is not None and form.status == HTTPStatus.PRECONDITION_FAILED
    return await page.answer(
        "agents/settings.html",
        status=next(
            (each.status for each in (form, configuring, deleting) if each and each.errors),
            HTTPStatus.OK,
        ),
        agent=agent,
        version=f"{commands.agent_version(agent)}_{_caps_version(budget.usage)}",
        saved=saved,
        form=form or stored,
        theirs=_differences(stored, form) if form is not None and has_changed else {},
        has_changed=has_changed,
        configuring=configuring,
        deleting=deleting,
        **await _settings_context(access, page.settings, agent, budget),
    )


async def _settings_context(
    access: AgentAccess, settings: Settings, agent: AgentDetails, budget: BudgetResponse
) -> dict[str, Any]:
    return {
        "phases": list(Phase),
        "prompted": list(PROMPTED_PHASES),
        "intervals": INTERVALS,
        "label": label,
        "default_model": settings.model,
        "budget": budget,
        "forecast": _forecast(settings, agent),
        "spent": await _spent(access),
        "types": await _types(access),
        "max_counted": graph.MAX_COUNTED,
        "prompts": await model.current_prompts(access),
    }


@dataclass(frozen=True)
class UsedTypes:
    """The types of which there are nodes, or edges, with their numbers and properties; the most used first."""

    kind: str
    """`node` or `edge`."""
    types: Sequence[tuple[NodeTypeDetails | EdgeTypeDetails, int, Sequence[PropertyRow]]]
    unused: int


async def _types(access: AgentAccess) -> list[UsedTypes]:
    counts, first = await graph.count_by_type(access), PageRequest(LARGEST_PAGE)
    return [
        _used("node", (await graph.list_node_types(access, first)).items, counts.nodes),
        _used("edge", (await graph.list_edge_types(access, first)).items, counts.edges),
    ]


def _used(
    kind: str, types: Sequence[NodeTypeDetails | EdgeTypeDetails], counts: Mapping[str, int]
) -> UsedTypes:
    used = [
        (each, counts[each.name], property_rows(each.properties_schema))
        for each in types
        if counts.get(each.name)
    ]
    used.sort(key=lambda each: -each[1])
    return UsedTypes(kind, used, len(counts) - len(used))


async def _spent(access: AgentAccess) -> Tiles:
    """Returns what the agent has spent in the last days."""
    scope = CostScope(access.owner_id, access.agent.id)
    life = await reports.read_life(access.session, scope)
    days = await reports.read_recent(access.session, scope, life.now)
    return build_tiles(life, days, unit_of(days))


def _stored(agent: AgentDetails, usage: BudgetUsage) -> FormState:
    """The form of the stored settings."""
    longest = agent.max_interval_seconds
    of_agent = set(SettingsForm.model_fields) & set(AgentDetails.model_fields)
    written = {
        "interval_seconds": format_duration(agent.interval_seconds),
        "max_interval_seconds": None if longest is None else format_duration(longest),
        "verification_usd_per_day": None
        if agent.verification_usd_per_day is None
        else f"{agent.verification_usd_per_day:g}",
        "entailment_share": f"{agent.entailment_share:g}",
        "actions": [f"{word}: {meaning}" for word, meaning in agent.actions.items()],
        "usd_per_day": None if usage.usd_per_day is None else f"{usage.usd_per_day:.10g}",
        "calls_per_day": usage.calls_per_day,
    }
    stored_models = renamed_phases(agent.models)
    models = {phase.value: stored_models.get(phase) for phase in Phase}
    return FormState.filled(**(agent.model_dump(include=of_agent) | models | written))


def _differences(stored: FormState, typed: FormState) -> dict[str, str]:
    """The stored texts of the fields in which others differ from what was typed."""
    return {
        name: stored.text(name)
        for name in stored.values
        if stored.text(name).split() != typed.text(name).split()
    }


def _caps_version(usage: BudgetUsage) -> str:
    caps = f"{usage.usd_per_day} {usage.calls_per_day}"
    return sha256(caps.encode()).hexdigest()[:_CAPS_HASH_CHARS]


def _forecast(settings: Settings, agent: AgentDetails) -> ForecastResponse | None:
    """What the agent will cost in a day with the model that plans; None where the prices cannot be read."""
    try:
        model_name = agent.models.get(Phase.OBSERVER)
        return forecast.day_forecast(settings, agent.interval_seconds, model_name)
    except PermanentError:
        return None


VERSIONS_PER_PAGE: Final = 10


@dataclass(frozen=True)
class PromptVersion:
    """`changes` is the diff to the previous version; None for the first."""

    prompt: PromptResponse
    changes: Sequence[DiffRun] | None


@router.get("/prompts/{phase}")
async def show_prompt(
    access: OwnedAgent,
    page: PageResponse,
    phase: PromptedPhase,
    cursor: str | None = None,
    saved: bool = False,
) -> HTMLResponse:
    return await _prompt_page(access, page, phase, cursor=cursor, saved=saved)


@router.post("/prompts/{phase}")
async def edit_prompt(
    access: OwnedAgent,
    page: PageResponse,
    phase: PromptedPhase,
    form: Annotated[Submitted[PromptForm], submitted(PromptForm)],
) -> Response:
    """Saves the prompt. If another user has changed it since, shows both versions instead."""
    if form.model is None:
        return await _prompt_page(access, page, phase, form=form)
    await agent_store.lock_agent(access.session, access.agent.id)
    present = await _current_prompt(access, phase)
    if present is not None and present.version != form.model.version:
        clash = form.with_error(FORM, "changed", HTTPStatus.PRECONDITION_FAILED)
        return await _prompt_page(access, page, phase, form=clash)
    try:
        await commands.edit_prompt(access, Phase(phase), form.model.prompt, versions=None)
    except ProblemError as error:
        return await _prompt_page(access, page, phase, form=form.refused(error, {}))
    url = f"/agents/{access.agent.id}/settings/prompts/{phase}?saved=true"
    return RedirectResponse(url, HTTPStatus.SEE_OTHER)


async def _prompt_page(
    access: AgentAccess,
    page: Page,
    phase: PromptedPhase,
    *,
    cursor: str | None = None,
    saved: bool = False,
    form: FormState | None = None,
) -> HTMLResponse:
    """A prompt that was refused is shown with its text; one that has changed meanwhile with the difference too."""
    present = await _current_prompt(access, phase)
    versions, next_cursor = await _versions(access, phase, cursor)
    has_changed = form is not None and form.status == HTTPStatus.PRECONDITION_FAILED
    clash = None
    if form is not None and has_changed and present is not None:
        clash = word_diff(present.prompt, form.text("prompt").replace("\r\n", "\n"))
    return await page.answer(
        "agents/prompt.html",
        status=HTTPStatus.OK if form is None else form.status,
        agent=access.agent,
        phase=phase,
        phases=list(PROMPTED_PHASES),
        present=present,
        form=form or FormState.filled(prompt=present.prompt if present else ""),
        clash=clash,
        saved=saved,
        versions=versions,
        next=next_cursor,
    )


async def _current_prompt(access: AgentAccess, phase: PromptedPhase) -> PromptResponse | None:
    """None before the agent is configured."""
    prompts = await model.current_prompts(access)
    return next((row for row in prompts.items if row.phase == phase), None)


async def _versions(
    access: AgentAccess, phase: PromptedPhase, cursor: str | None
) -> tuple[list[PromptVersion], str | None]:
    """Returns versions, newest first. The version before the oldest is read too, for its diff."""
    shown = await model.list_prompt_versions(access, PageRequest(VERSIONS_PER_PAGE, cursor), phase)
    previous: list[PromptResponse | None] = [*shown.items[1:], None]
    if shown.next is not None:
        older = await model.list_prompt_versions(access, PageRequest(1, shown.next), phase)
        previous[-1] = next(iter(older.items), None)
    versions = [
        PromptVersion(row, None if before is None else word_diff(before.prompt, row.prompt))
        for row, before in zip(shown.items, previous, strict=False)
    ]
    return versions, shown.next
