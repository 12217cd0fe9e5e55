"""Retractions and their undoing, as a person asks for them."""

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from cli.client.client import Client
from cli.errors import CommandError
from cli.render.console import counted
from shared.schemas.provenance import RetractionView

LOOK_SECONDS: Final = 0.2

Say = Callable[[str], None]


def restore(client: Client, agent: str, reference: str) -> list[RetractionView]:
    """Undoes what stands of a URL, a source's id, or the retraction of that id. Raises CommandError where nothing does."""
    standing = list(client.retractions(agent, None, standing=True, source=reference))
    if standing:
        return [client.restore(agent, each.id) for each in standing]
    if (retraction_id := _as_id(reference)) is not None:
        return [client.restore(agent, retraction_id)]
    raise CommandError(
        f'no retraction of {reference!r} stands; those that do: vigil source retractions "{agent}"'
    )


def until_gone_through(
    client: Client, agent: str, asked: list[RetractionView], say: Say
) -> list[RetractionView]:
    """The same when all that rests on them has been folded anew."""
    found = asked
    while any(each.is_pending for each in found):
        left = sum(each.left for each in found)
        say(f"going through what rests on it: {counted(left, 'quote')} left")
        time.sleep(LOOK_SECONDS)
        found = [client.retraction(agent, each.id) for each in asked]
    return found


def _as_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
