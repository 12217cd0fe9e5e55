"""Users and their credentials in a terminal."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.render.console import ago, short_id
from shared.schemas.accounts import MeResponse, TokenResponse, UserResponse
from shared.schemas.base import ProvidersResponse


def show_me(console: Console, me: MeResponse, url: str, providers: ProvidersResponse) -> None:
    operator = ", an operator" if me.user.operator else ""
    email = f" <{me.user.email}>" if me.user.email else ""
    console.print(f"[agent]{escape(me.user.name)}[/]{escape(email)}{operator}", soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_row("  API", escape(url))
    table.add_row("  Credential", f"{me.credential.kind} {short_id(me.credential.id)}")
    table.add_row("  Model", escape(describe_model(providers)))
    table.add_row("  Search", escape(describe_search(providers)))
    table.add_row("  Allows", ", ".join(me.credential.scopes))
    table.add_row("  Expires", _when(me.credential.expires_at))
    console.print(table)


def describe_model(providers: ProvidersResponse) -> str:
    if providers.model_is_sandbox:
        return f"the sandbox ({providers.model}), which costs nothing"
    return f"{providers.model} of {providers.model_server or 'OpenAI'}"


def describe_search(providers: ProvidersResponse) -> str:
    if providers.search_is_sandbox:
        return "the sandbox, in its corpus"
    return providers.search_server or "Tavily"


def show_tokens(console: Console, tokens: Sequence[TokenResponse]) -> None:
    if not tokens:
        console.print(
            "There are no tokens. Create one with `vigil token create NAME`.", soft_wrap=True
        )
        return
    table = _table("Id", "Name", "Allows", "Created", "Used", "Expires")
    for token in tokens:
        table.add_row(
            short_id(token.id),
            f"[agent]{escape(token.name)}[/]",
            ", ".join(token.scopes),
            ago(token.created_at),
            _when(token.last_used_at),
            _when(token.expires_at),
        )
    console.print(table)


def show_users(console: Console, users: Sequence[UserResponse]) -> None:
    table = _table("Name", "Mail", "", "Last sign-in", "Added")
    for user in users:
        disabled = "[bad]disabled[/]" if user.disabled_at else ""
        table.add_row(
            f"[agent]{escape(user.name)}[/]",
            escape(user.email or ""),
            disabled or ("operator" if user.operator else ""),
            _when(user.signed_in_at),
            ago(user.created_at),
        )
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column)
    return table


def _when(moment: datetime | None) -> str:
    return "[quiet]never[/]" if moment is None else ago(moment)
