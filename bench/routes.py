"""`python -m bench.routes`: files and functions of Vigil that an answer, a call of the model and a page cross at run time.

A profile hook counts the distinct files and functions of `cli`, `services` and `shared` that start between the two ends of
a route, while a golden mission runs on a real PostgreSQL and its agent's page is requested. Functions that were suspended
when the route began, comprehensions, compiled templates and generated code do not count. Where the routes begin and end:

- An answer with `addGraphNode` calls: from the return of `LedgeredModel.answer`, which has parsed and recorded it, to the
  return of `ToolLoop._use_tools`: effects, results and the record of the next call are committed.
- A call of the model: from the call of `LedgeredModel.answer` to its return: the answer is recorded in the unit of work,
  which is committed unless the effects of the answer's tools are to be committed with it.
- The agent's page: from the request of a signed-in browser, as the application receives it, to the last byte of the HTML.
  It is not the first request.

Exit code 1 if a median is more than TOLERANCE above the recorded one.
"""

import argparse
import asyncio
import dis
import inspect
import json
import statistics
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import cache, wraps
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from bench.support import provision, running_engines
from shared.database.engine import Database
from shared.llm.ledgered_model import LedgeredModel, Reading
from shared.llm.messages import ChatRequest
from shared.llm.tool_loop import ToolLoop
from shared.runtime.settings import Settings
from tests.support.api.clients import signed_in_browser
from tests.support.golden.golden_services import create_agent, running_services
from tests.support.golden.missions import MISSIONS

MISSION: Final = MISSIONS[0]
ITERATIONS: Final = 2
PAGES: Final = 3
RECORDED: Final = Path(__file__).with_suffix(".json")
TOLERANCE: Final = 0.1

ANSWER: Final = "an answer with addGraphNode calls"
MODEL_CALL: Final = "a call of the model"
PAGE: Final = "the agent's page"


@dataclass(frozen=True)
class Count:
    """Distinct files and functions."""

    files: float
    functions: float


Counts = Mapping[str, Count]
"""By route."""

GOALS: Final = {ANSWER: Count(26, 230), MODEL_CALL: Count(14, 110), PAGE: Count(20, 120)}

_ROOT: Final = Path(__file__).parents[1]
_PRODUCT: Final = tuple(f"{_ROOT / package}/" for package in ("cli", "services", "shared"))
_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Functions in some versions of Python only."""


class RouteCounter:
    """Counts the functions of the product that start while a route is open, in the task that opened it or in another."""

    def __init__(self) -> None:
        self.counts: dict[str, list[Count]] = {}
        self.crossings: dict[str, Counter[CodeType]] = {}
        """By route, how often each function was crossed."""
        self._open: dict[str, set[CodeType]] = {}

    def start(self, route: str) -> None:
        """Open the route. If it is open, what it has crossed is forgotten."""
        self._open[route] = set()
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def end(self, route: str) -> None:
        """Close the route; does nothing if it is not open."""
        crossed = self._open.pop(route, None)
        if not self._open:
            sys.setprofile(None)
            threading.setprofile(None)
        if crossed is not None:
            files = {code.co_filename for code in crossed}
            self.counts.setdefault(route, []).append(Count(len(files), len(crossed)))
            self.crossings.setdefault(route, Counter()).update(crossed)

    @contextmanager
    def counted(self, route: str) -> Iterator[None]:
        self.start(route)
        try:
            yield
        finally:
            self.end(route)

    def medians(self) -> Counts:
        return {
            route: Count(
                statistics.median(count.files for count in counts),
                statistics.median(count.functions for count in counts),
            )
            for route, counts in self.counts.items()
        }

    def listing(self) -> str:
        """The functions of each route by file, each with the share of the runs that crossed it."""
        lines: list[str] = []
        for route, crossings in self.crossings.items():
            lines.append(f"\n{route}")
            runs = len(self.counts[route])
            for file, codes in groupby(sorted(crossings, key=_place), lambda code: _place(code)[0]):
                lines.append(f"  {file}")
                lines += [
                    f"    {crossings[code] / runs:4.0%} {code.co_firstlineno:5} {code.co_qualname}"
                    for code in codes
                ]
        return "\n".join(lines)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_lasti == _first_instruction(frame.f_code):
            for crossed in self._open.values():
                crossed.add(frame.f_code)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_filename.removeprefix(f"{_ROOT}/"), code.co_firstlineno


@cache
def _first_instruction(code: CodeType) -> int | None:
    """Offset of the instruction at which a function of the product starts; None for other code.

    A coroutine or generator that is resumed goes on at a later one.
    """
    is_ours = code.co_filename.startswith(_PRODUCT) and code.co_filename.endswith(".py")
    is_function = code.co_flags & inspect.CO_NEWLOCALS and code.co_name not in _COMPREHENSIONS
    if not is_ours or not is_function:
        return None
    starts = (
        instruction.offset
        for instruction in dis.get_instructions(code)
        if instruction.opname == "RESUME" and instruction.arg == 0
    )
    return next(starts, None)


async def count_routes(database_url: str, folder: Path) -> RouteCounter:
    """Run iterations of the mission and request its agent's page. `folder` is for the corpus."""
    counter = RouteCounter()
    async with AsyncExitStack() as stack:
        database = Database(database_url, name="bench")
        stack.push_async_callback(database.close)
        agent = await create_agent(database, MISSION)
        services = await stack.enter_async_context(
            running_services(database, database_url, MISSION, folder)
        )
        with _counted_phases(counter):
            for _ in range(ITERATIONS):
                await services.run_iteration(agent)
        browser = await stack.enter_async_context(
            signed_in_browser(Settings(database_url=database_url), database)
        )
        await browser.get(f"/agents/{agent.id}")
        for _ in range(PAGES):
            with counter.counted(PAGE):
                response = await browser.get(f"/agents/{agent.id}")
            assert agent.name in response.raise_for_status().text
    return counter


@contextmanager
def _counted_phases(counter: RouteCounter) -> Iterator[None]:
    """Count calls of the model and answers, of all phases of this process."""
    request_answer, use_tools = LedgeredModel.answer, ToolLoop._use_tools

    @wraps(request_answer)
    async def counted_request(*args: Any, **options: Any) -> Reading:
        with counter.counted(MODEL_CALL):
            reading: Reading = await request_answer(*args, **options)
        if any(call.name == "addGraphNode" for call in reading.answer.tool_calls):
            counter.start(ANSWER)
        return reading

    @wraps(use_tools)
    async def counted_tools(*args: Any, **options: Any) -> ChatRequest | None:
        try:
            return await use_tools(*args, **options)
        finally:
            counter.end(ANSWER)

    with (
        patch.object(LedgeredModel, request_answer.__name__, counted_request),
        patch.object(ToolLoop, use_tools.__name__, counted_tools),
    ):
        yield


def load_recorded() -> Counts:
    return {route: Count(**count) for route, count in json.loads(RECORDED.read_text()).items()}


def find_growth(recorded: Counts, now: Counts) -> list[str]:
    """What has grown by more than TOLERANCE, in words."""
    return [
        f"{route}: {now_value:g} {name}, recorded were {recorded_value:g}"
        for route, count in now.items()
        for (name, now_value), recorded_value in zip(
            asdict(count).items(), asdict(recorded[route]).values(), strict=True
        )
        if now_value > recorded_value * (1 + TOLERANCE)
    ]


def main() -> int:
    arguments = _parse_arguments()
    with (
        tempfile.TemporaryDirectory() as home,
        running_engines(Path(home)) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url("vigil"), nats_url=nats.url)
        provision(settings)
        counter = asyncio.run(count_routes(settings.database_url, Path(home)))
    counts = counter.medians()
    if arguments.list:
        print(counter.listing())
    if arguments.accept:
        content = {route: asdict(count) for route, count in counts.items()}
        RECORDED.write_text(json.dumps(content, indent=1) + "\n")
    recorded = load_recorded()
    Console().print(_table(recorded, counts))
    growth = find_growth(recorded, counts)
    for line in growth:
        print(line, file=sys.stderr)
    return 1 if growth else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.routes", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the functions by file")
    parser.add_argument("--accept", action="store_true", help=f"write {RECORDED.name}")
    return parser.parse_args()


def _table(recorded: Counts, counts: Counts) -> Table:
    table = Table(title="medians of files/functions")
    table.add_column("route")
    for name in ("now", "recorded", "goal"):
        table.add_column(name, justify="right")
    for route, count in counts.items():
        cells = (count, recorded[route], GOALS[route])
        table.add_row(route, *(f"{cell.files:g}/{cell.functions:g}" for cell in cells))
    return table


if __name__ == "__main__":
    sys.exit(main())
