"""What people get to see of who may come in. No shape holds a secret but the two that hand it out, once."""

from datetime import datetime
from uuid import UUID

from shared.enums import AccessScope, CredentialKind
from shared.schemas.base import View


class UserView(View):
    id: UUID
    name: str
    email: str | None
    operator: bool
    disabled_at: datetime | None
    """Since when it may not come in; None: it may."""
    signed_in_at: datetime | None
    """When a browser of its last signed in."""
    created_at: datetime


class CredentialView(View):
    """What was shown with a request."""

    kind: CredentialKind
    id: UUID
    scopes: list[AccessScope]
    expires_at: datetime | None
    """None: never."""


class MeView(View):
    """Who asks, and by what."""

    user: UserView
    credential: CredentialView


class TokenView(View):
    id: UUID
    name: str
    scopes: list[AccessScope]
    created_at: datetime
    expires_at: datetime | None
    """None: never."""
    last_used_at: datetime | None
    """To the minute."""


class NewTokenView(TokenView):
    token: str
    """Shown this once: only its digest is kept."""


class SessionView(View):
    id: UUID
    browser: str
    """What it calls itself."""
    created_at: datetime
    last_used_at: datetime
    """To the minute."""
    ends_at: datetime
    """At the latest; a week without use ends it too."""
    current: bool
    """Whether it is the one that asks."""


class SignInLinkView(View):
    url: str
    """Opened in a browser, it signs that in; once."""
    expires_at: datetime
