"""Schemas of users and credentials. Only the two that create a secret contain it, once."""

from datetime import datetime
from uuid import UUID

from shared.enums import AccessScope, CredentialKind
from shared.schemas.base import ResponseModel


class UserResponse(ResponseModel):
    id: UUID
    name: str
    email: str | None
    operator: bool
    disabled_at: datetime | None
    """Since when the user is disabled; None: enabled."""
    signed_in_at: datetime | None
    """When a browser last signed in."""
    created_at: datetime


class CredentialResponse(ResponseModel):
    """The credential of a request."""

    kind: CredentialKind
    id: UUID
    scopes: list[AccessScope]
    expires_at: datetime | None
    """None: never expires."""


class MeResponse(ResponseModel):
    """The user and the credential of the request."""

    user: UserResponse
    credential: CredentialResponse


class TokenResponse(ResponseModel):
    id: UUID
    name: str
    scopes: list[AccessScope]
    created_at: datetime
    expires_at: datetime | None
    """None: never expires."""
    last_used_at: datetime | None
    """Rounded to the minute."""


class NewTokenResponse(TokenResponse):
    token: str
    """Shown only once: only its digest is stored."""


class SessionResponse(ResponseModel):
    id: UUID
    browser: str
    """Name of the browser."""
    created_at: datetime
    last_used_at: datetime
    """Rounded to the minute."""
    ends_at: datetime
    """The latest end; a week without use ends the session too."""
    current: bool
    """Whether it is the session of this request."""


class SignInLinkResponse(ResponseModel):
    url: str
    """Opening it in a browser signs in, once."""
    expires_at: datetime
