"""One system prompt of an agent: edited, with all that it was before and what each time changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi import Form as Sent
from starlette.responses import HTMLResponse, RedirectResponse, Response

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.commands import agents as agent_commands
from services.api.queries import agents as agent_queries
from services.api.web.forms import EditedPrompt
from services.api.web.rendering import Answering, Page
from services.api.web.text import Run, changes
from shared.agents import agents
from shared.enums import Phase
from shared.schemas.agents import PromptedPhase, PromptView
from shared.schemas.base import Wanted

router = APIRouter(prefix="/agents/{agent}/settings/prompts")

VERSIONS_A_PAGE: Final = 10


@dataclass(frozen=True)
class Version:
    """`changes` is what it changed in the one before it; None of the first."""

    prompt: PromptView
    changes: Sequence[Run] | None


@router.get("/{phase}")
async def look(
    access: OwnedAgent,
    page: Answering,
    phase: PromptedPhase,
    cursor: str | None = None,
    saved: bool = False,
) -> HTMLResponse:
    return await _page(access, page, phase, cursor=cursor, saved=saved)


@router.post("/{phase}")
async def edit(
    access: OwnedAgent,
    page: Answering,
    phase: PromptedPhase,
    wanted: Annotated[EditedPrompt, Sent()],
) -> Response:
    """An edit over somebody else's is not made, but shown beside it."""
    await agents.locked(access.session, access.agent.id)
    present = await _present(access, phase)
    if present is not None and present.version != wanted.version:
        return await _page(access, page, phase, edited=wanted.prompt)
    await agent_commands.edit_prompt(
        access.session, access.agent.id, Phase(phase), wanted.prompt, versions=None
    )
    there = f"/agents/{access.agent.id}/settings/prompts/{phase}?saved=true"
    return RedirectResponse(there, HTTPStatus.SEE_OTHER)


async def _page(
    access: AgentAccess,
    page: Page,
    phase: PromptedPhase,
    *,
    cursor: str | None = None,
    saved: bool = False,
    edited: str | None = None,
) -> HTMLResponse:
    """With `edited`, which was not saved: somebody else was quicker."""
    present = await _present(access, phase)
    versions, following = await _versions(access, phase, cursor)
    clash = None if edited is None or present is None else changes(present.prompt, edited)
    return await page.answer(
        "agents/prompt.html",
        status=HTTPStatus.OK if edited is None else HTTPStatus.PRECONDITION_FAILED,
        agent=access.agent,
        phase=phase,
        present=present,
        edited=edited,
        clash=clash,
        saved=saved,
        versions=versions,
        next=following,
    )


async def _present(access: AgentAccess, phase: PromptedPhase) -> PromptView | None:
    """None before it is configured."""
    found = await agent_queries.current_prompts(access.session, access.agent.id)
    return next((each for each in found.items if each.phase == phase), None)


async def _versions(
    access: AgentAccess, phase: PromptedPhase, cursor: str | None
) -> tuple[list[Version], str | None]:
    """The newest first; the one before the last of them is read too, for that one's changes."""
    wanted = Wanted(VERSIONS_A_PAGE, cursor)
    found = await agent_queries.history(access.session, access.agent.id, phase, wanted)
    before = [*found.items[1:], await _first_after(access, phase, found.next)]
    versions = [
        Version(each, None if former is None else changes(former.prompt, each.prompt))
        for each, former in zip(found.items, before, strict=False)
    ]
    return versions, found.next


async def _first_after(
    access: AgentAccess, phase: PromptedPhase, cursor: str | None
) -> PromptView | None:
    if cursor is None:
        return None
    found = await agent_queries.history(access.session, access.agent.id, phase, Wanted(1, cursor))
    return next(iter(found.items), None)
