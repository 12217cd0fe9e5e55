"""Users, for operators."""

import re
from http import HTTPStatus
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from sqlalchemy.exc import IntegrityError

from services.api.auth.dependencies import Operated
from services.api.auth.middleware import demand
from services.api.auth.owner import Owner
from services.api.auth.sign_in_links import Invitations
from services.api.http.dependencies import Page, Paging
from services.api.http.idempotency import AskedOnce
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.queries import accounts as reading
from shared.accounts import credentials
from shared.database.tables import User
from shared.enums import AccessScope
from shared.errors import PermanentError
from shared.notifications.smtp import address
from shared.schemas.accounts import SignInLinkView, UserView

router = APIRouter(prefix="/users", tags=["users"])

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
MOST_ADDRESS_CHARACTERS: Final = 254


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None or _is_id(text):
        raise ValueError(
            "a user's name has 1 to 64 small letters, digits, dots, dashes and underscores, and begins with a letter "
            "or digit"
        )
    return text


def _is_id(text: str) -> bool:
    """It would stand for another in addresses."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _email(text: str) -> str:
    """Without the name that may stand before it."""
    try:
        plain = address(text).addr_spec
    except PermanentError as error:
        raise ValueError(str(error)) from error
    if plain != text or len(text) > MOST_ADDRESS_CHARACTERS:
        raise ValueError(f"{text!r} is no mail address: write name@host")
    return text


class NewUser(BaseModel):
    model_config = ConfigDict(extra="forbid")

    # Told so in the api's document only: what is refused is said in words by the validators.
    name: Annotated[
        str, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{_NAME.pattern}$"})
    ]
    email: (
        Annotated[str, AfterValidator(_email), Field(json_schema_extra={"format": "email"})] | None
    ) = None
    operator: bool = False


async def _found(
    access: Operated, user: Annotated[str, Path(description="The user's name, id or mail address")]
) -> User:
    found = await credentials.find(access.session, user)
    if found is None:
        raise NotFoundError("user", user)
    return found


Found = Annotated[User, Depends(_found, scope="function")]


@router.get("")
async def list_all(access: Operated, paging: Paging) -> Page[UserView]:
    """By name."""
    return await reading.users(access.session, paging)


@router.post(
    "",
    status_code=HTTPStatus.CREATED,
    response_model=UserView,
    responses=problems(HTTPStatus.CONFLICT),
)
async def create(access: Operated, once: AskedOnce, wanted: Annotated[NewUser, Body()]) -> Response:
    """Who comes in first by a sign-in link: asked for at `/sign-in`, or handed over by an operator."""

    async def make() -> UserView:
        try:
            made = await credentials.create_user(
                access.session, name=wanted.name, email=wanted.email, operator=wanted.operator
            )
        except IntegrityError as error:
            raise ConflictError(
                "user-taken", "There is a user of that name or with that mail address already."
            ) from error
        return UserView.model_validate(made)

    return await once.answer(make)


@router.get("/{user}")
async def show(found: Found) -> UserView:
    return UserView.model_validate(found)


@router.delete(
    "/{user}", status_code=HTTPStatus.NO_CONTENT, responses=problems(HTTPStatus.CONFLICT)
)
async def remove(request: Request, access: Operated, found: Found) -> None:
    """With every agent of its and all that they know; its credentials are refused from now on."""
    await _demand_not_owner(request, found, "removed")
    await credentials.remove(access.session, found.id)


@router.post("/{user}/disable", responses=problems(HTTPStatus.CONFLICT))
async def disable(request: Request, access: Operated, found: Found) -> UserView:
    """Comes in by nothing any more, from now on; what its agents do goes on."""
    await _demand_not_owner(request, found, "disabled")
    await credentials.set_disabled(access.session, found.id, disabled=True)
    return await reading.user(access.session, found.id)


@router.post("/{user}/enable")
async def enable(access: Operated, found: Found) -> UserView:
    """Its tokens work again; its browsers have to sign in anew."""
    await credentials.set_disabled(access.session, found.id, disabled=False)
    return await reading.user(access.session, found.id)


@router.post(
    "/{user}/sign-in-links",
    status_code=HTTPStatus.CREATED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def make_link(
    request: Request, response: Response, access: Operated, found: Found
) -> SignInLinkView:
    """To be handed to that user, where no mail is sent.

    A session may do all that its user may, so the credential that asks for one must, too.
    """
    for scope in AccessScope:
        demand(access.caller, scope)
    if found.disabled_at is not None:
        raise ConflictError("disabled", f"{found.name} is disabled: enable that user first.")
    invitations: Invitations = request.app.state.invitations
    response.headers["Cache-Control"] = "no-store"
    return await invitations.make(access.session, found.id)


async def _demand_not_owner(request: Request, found: User, what: str) -> None:
    """Or nobody might be left who can make users."""
    owner: Owner = request.app.state.owner
    if found.id == await owner.id():
        raise ConflictError("owner", f"{found.name} owns this installation and cannot be {what}.")
