"""Who asks, and what that user comes in by."""

from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Body, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from services.api.auth.dependencies import Owned
from services.api.auth.middleware import cookie_name, demand
from services.api.auth.owner import Owner
from services.api.auth.sign_in_links import Invitations
from services.api.http.dependencies import Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import ConflictError, ForbiddenError, NotFoundError, problems
from services.api.queries import accounts as reading
from shared.accounts import credentials
from shared.accounts.authentication import scopes_of
from shared.enums import AccessScope, CredentialKind
from shared.runtime.settings import Settings
from shared.schemas.accounts import (
    CredentialView,
    MeView,
    NewTokenView,
    SessionView,
    SignInLinkView,
    TokenView,
)

router = APIRouter(tags=["access"])

LONGEST_TOKEN_DAYS: Final = 3650


def _name(text: str) -> str:
    text = text.strip()
    if not text or not text.isprintable():
        raise ValueError("a token's name is one line of text: say what it is for")
    return text


class NewToken(BaseModel):
    """What a token is to be good for."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1, max_length=80), AfterValidator(_name)]
    """What it is for, so that it is known again when it is to be revoked."""
    scopes: Annotated[frozenset[AccessScope], Field(min_length=1)] = credentials.USUAL_SCOPES
    expires_in_days: Annotated[int, Field(ge=1, le=LONGEST_TOKEN_DAYS)] | Literal["never"] = (
        credentials.LIFETIME.days
    )

    @property
    def lifetime(self) -> timedelta | None:
        days = self.expires_in_days
        return None if days == "never" else timedelta(days=days)


@router.get("/me")
async def me(access: Owned) -> MeView:
    """The user, and the credential that was shown."""
    caller = access.caller
    return MeView(
        user=await reading.user(access.session, caller.user_id),
        credential=CredentialView(
            kind=caller.kind,
            id=caller.credential_id,
            scopes=[scope for scope in AccessScope if scope in caller.scopes],
            expires_at=caller.expires_at,
        ),
    )


@router.post("/me/sign-in-links", status_code=HTTPStatus.CREATED)
async def make_link(request: Request, response: Response, access: Owned) -> SignInLinkView:
    """A link by which a browser is signed in, once.

    A session may do all that its user may, so the credential that asks for one must, too.
    """
    user = await reading.user(access.session, access.owner_id)
    for scope in sorted(scopes_of(operator=user.operator)):
        demand(access.caller, scope)
    invitations: Invitations = request.app.state.invitations
    response.headers["Cache-Control"] = "no-store"
    return await invitations.make(access.session, access.owner_id)


@router.get("/tokens")
async def list_tokens(access: Owned, paging: Paging) -> Page[TokenView]:
    """One's own, the newest first; what they are is not known any more."""
    return await reading.tokens_of(access.session, access.owner_id, paging)


@router.post(
    "/tokens",
    status_code=HTTPStatus.CREATED,
    response_model=NewTokenView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_token(
    access: Owned, once: AskedOnce, wanted: Annotated[NewToken, Body()]
) -> Response:
    """A token for a program, shown this once. It allows no more than the credential that asks for it."""
    if beyond := wanted.scopes - access.caller.scopes:
        raise ForbiddenError(
            "insufficient-scope",
            f"A token with {', '.join(sorted(beyond))} cannot be made by a credential without it.",
        )

    async def make() -> NewTokenView:
        row, token = await credentials.create_token(
            access.session,
            access.owner_id,
            name=wanted.name,
            scopes=wanted.scopes,
            lifetime=wanted.lifetime,
        )
        return NewTokenView(**dict(TokenView.model_validate(row)), token=token)

    return await once.answer(make, holds_secret=True)


@router.delete("/tokens/{token_id}", status_code=HTTPStatus.NO_CONTENT)
async def revoke_token(access: Owned, token_id: UUID) -> None:
    """At once and for good; the one that asks may be the one that goes."""
    if not await credentials.revoke(access.session, access.owner_id, token_id):
        raise NotFoundError("token", token_id)


@router.get("/sessions")
async def list_sessions(access: Owned, paging: Paging) -> Page[SessionView]:
    """The browsers in which one is signed in, the newest first."""
    return await reading.sessions_of(
        access.session, access.owner_id, access.caller.credential_id, paging
    )


@router.delete("/sessions/{session_id}", status_code=HTTPStatus.NO_CONTENT)
async def end_session(access: Owned, session_id: UUID) -> None:
    """Signs that browser out."""
    if not await credentials.end_session(access.session, access.owner_id, session_id):
        raise NotFoundError("session", session_id)


@router.post(
    "/sign-out", status_code=HTTPStatus.NO_CONTENT, responses=problems(HTTPStatus.CONFLICT)
)
async def leave(request: Request, response: Response, access: Owned) -> None:
    """Ends the session of the browser that asks."""
    if access.caller.kind is not CredentialKind.SESSION:
        raise ConflictError(
            "no-session", "This was asked with a token, which is revoked by DELETE /tokens/{id}."
        )
    await credentials.end_session(access.session, access.owner_id, access.caller.credential_id)
    settings: Settings = request.app.state.settings
    owner: Owner = request.app.state.owner
    name = cookie_name(settings, await owner.id())
    response.delete_cookie(name, httponly=True, samesite="lax", secure=settings.is_public_over_tls)
