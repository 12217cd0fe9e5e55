"""Users and their credentials in a terminal."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rich.console import Console
from rich.markup import escape

from cli.render.console import details, print_rows, short_id
from shared.schemas.accounts import MeResponse, TokenResponse, UserResponse
from shared.schemas.base import ProvidersResponse
from shared.wording import ago


def show_me(console: Console, me: MeResponse, url: str, providers: ProvidersResponse) -> None:
    operator = ", an operator" if me.user.operator else ""
    email = f" <{me.user.email}>" if me.user.email else ""
    console.print(f"[agent]{escape(me.user.name)}[/]{escape(email)}{operator}")
    rows = {
        "API": escape(url),
        "Credential": f"{me.credential.kind} {short_id(me.credential.id)}",
        "Model": escape(describe_model(providers)),
        "Search": escape(describe_search(providers)),
        "Allows": ", ".join(me.credential.scopes),
        "Expires": _when(me.credential.expires_at),
    }
    console.print(details(rows.items()))


def describe_model(providers: ProvidersResponse) -> str:
    if providers.model_is_sandbox:
        return f"the sandbox ({providers.model}), which costs nothing"
    return f"{providers.model} of {providers.model_server or 'OpenAI'}"


def describe_search(providers: ProvidersResponse) -> str:
    if providers.search_is_sandbox:
        return "the sandbox, in its corpus"
    return providers.search_server or "Tavily"


def show_tokens(console: Console, tokens: Sequence[TokenResponse]) -> None:
    columns: Mapping[str, Callable[[TokenResponse], str]] = {
        "Id": lambda token: short_id(token.id),
        "Name": lambda token: f"[agent]{escape(token.name)}[/]",
        "Allows": lambda token: ", ".join(token.scopes),
        "Created": lambda token: ago(token.created_at),
        "Used": lambda token: _when(token.last_used_at),
        "Expires": lambda token: _when(token.expires_at),
    }
    empty = "There are no tokens. Create one with `vigil token create NAME`."
    print_rows(console, tokens, columns, empty=empty)


def show_users(console: Console, users: Sequence[UserResponse]) -> None:
    columns: Mapping[str, Callable[[UserResponse], str]] = {
        "Name": lambda user: f"[agent]{escape(user.name)}[/]",
        "Mail": lambda user: escape(user.email or ""),
        "": lambda user: "[bad]disabled[/]" if user.disabled_at else "operator" * user.operator,
        "Last sign-in": lambda user: _when(user.signed_in_at),
        "Added": lambda user: ago(user.created_at),
    }
    print_rows(console, users, columns)


def _when(moment: datetime | None) -> str:
    return "[quiet]never[/]" if moment is None else ago(moment)
