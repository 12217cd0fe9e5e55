"""Who may come in, as the commands ask the api."""

from collections.abc import Iterator, Sequence
from typing import TypeVar
from urllib.parse import quote
from uuid import UUID

from cli.client.client import Client
from shared.schemas.accounts import MeView, NewTokenView, SignInLinkView, TokenView, UserView
from shared.schemas.base import Page

T = TypeVar("T")


class AccessClient(Client):
    def me(self) -> MeView:
        return self._ask(MeView, "GET", "/me")

    def make_link(self, user: str | None = None) -> SignInLinkView:
        """For whoever asks, or for another user."""
        whose = "/me" if user is None else _user(user)
        return self._ask(SignInLinkView, "POST", f"{whose}/sign-in-links")

    def tokens(self) -> list[TokenView]:
        return list(self._all(Page[TokenView], "/tokens"))

    def create_token(
        self, name: str, *, scopes: Sequence[str], expires_in_days: int | str | None
    ) -> NewTokenView:
        """None leaves it to the api."""
        wanted = {"name": name, "scopes": scopes or None, "expires_in_days": expires_in_days}
        given = {key: value for key, value in wanted.items() if value is not None}
        return self._ask(NewTokenView, "POST", "/tokens", json=given)

    def revoke_token(self, token_id: UUID) -> None:
        self._send("DELETE", f"/tokens/{token_id}")

    def users(self) -> list[UserView]:
        return list(self._all(Page[UserView], "/users"))

    def add_user(self, name: str, *, email: str | None, operator: bool) -> UserView:
        wanted = {"name": name, "email": email, "operator": operator}
        return self._ask(UserView, "POST", "/users", json=wanted)

    def user(self, reference: str) -> UserView:
        return self._ask(UserView, "GET", _user(reference))

    def order_user(self, reference: str, order: str) -> UserView:
        """`disable` or `enable`."""
        return self._ask(UserView, "POST", f"{_user(reference)}/{order}")

    def remove_user(self, reference: str) -> None:
        self._send("DELETE", _user(reference))

    def _all(self, shape: type[Page[T]], path: str) -> Iterator[T]:
        """Page after page."""
        cursor: str | None = None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            page = self._ask(shape, "GET", path, params=params)
            yield from page.items
            if (cursor := page.next) is None:
                return


def _user(reference: str) -> str:
    return f"/users/{quote(reference, safe='')}"
