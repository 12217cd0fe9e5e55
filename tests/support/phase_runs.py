"""Phase runs with one structured answer, and stored phase runs as readers see them."""

from typing import TypeVar

from pydantic import BaseModel
from sqlalchemy import Select

from shared.database.tables import Interaction
from shared.database.transaction import Transaction
from shared.llm.phase_run import PhaseRun
from shared.llm.phase_run_store import load_requests
from shared.llm.structured_output import request_structured_answer, response_format

T = TypeVar("T", bound=BaseModel)


async def request_structured(run: PhaseRun, shape: type[T], *, name: str) -> T:
    """Start the run and return the model's answer, which ends it."""
    request = await run.begin(response_format=response_format(shape, name))
    parsed, _ = await request_structured_answer(run, request, shape, name=name)
    run.complete()
    await run.unit.commit_if_immediate()
    return parsed


async def first_messages(session: Transaction, query: Select[Interaction]) -> list[str]:
    """The first message of each selected run, in order."""
    runs = list(await session.scalars(query))
    requests = await load_requests(session, runs)
    return [requests[run.id]["messages"][0]["content"] for run in runs]
