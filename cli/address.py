"""An installation as a person names it, and how a command comes to know."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Annotated, Any, Final

import typer


@dataclass(frozen=True)
class Address:
    """What was given of it; None is what was not."""

    url: str | None = None
    token: str | None = None
    """`-`: it is read from standard input."""
    profile: str | None = None


Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Token to come in by; - reads it from standard input, where nobody sees it among the processes.",
        envvar="VIGIL_TOKEN",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="An installation that `vigil login` has saved.",
        envvar="VIGIL_PROFILE",
    ),
]

_OPTIONS: Final[dict[str, Any]] = {"token": Token, "profile": Profile}


def with_credentials(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with a --token and a --profile beside its --url; it is handed all of it as its `url`.

    Thus no command that speaks to an api can be without them.
    """
    signature = inspect.signature(command)
    if "url" not in signature.parameters:
        return command

    @wraps(command)
    def addressed(
        *, url: Address | None = None, token: str | None, profile: str | None, **given: Any
    ) -> None:
        command(**given, url=replace(url or Address(), token=token, profile=profile))

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in _OPTIONS.items()
    ]
    parameters = [*signature.parameters.values(), *added]
    addressed.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # of functions too
    addressed.__annotations__ = {**command.__annotations__, **_OPTIONS}
    return addressed
