"""`python -m bench.tokens.day`: what an agent costs in a day at five minutes, on a corpus of which a tenth changes.

The clock is moved: a tick follows the one before at once, and everything that was written before is dated five minutes back.
Exit code 1 if the day costs more than MAX_USD.
"""

import argparse
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import psycopg
from rich.console import Console

from bench.tokens.counting import cached_tokens, counted
from bench.tokens.figures import INTERVAL_SECONDS, PRICED, PRICES, SEARCH_USD
from bench.tokens.missions import MISSIONS
from bench.tokens.run import record
from cli.watch import IterationWatch
from sandbox.corpus import Document, load
from sandbox.settings import DEFAULT_CORPUS
from shared.schemas.base import AgentDetails, IterationDetails

TICKS: Final = int(24 * 3600 / INTERVAL_SECONDS)
DOCUMENTS: Final = 60
CHANGING: Final = 0.1
"""Share of the documents that change in the day, each once."""
CHANGED_LINES: Final = 3
FIRST_CHANGE: Final = 24
"""Tick from which documents change: what is not known yet cannot be seen to change."""
MAX_USD: Final = 2.5
SEED: Final = 7

# The graph's own tables are left out: the journal would record the change as one by the owner.
_OLDER: Final = [
    f"update {table} set " + ", ".join(f"{column} = {column} - :age" for column in columns)
    for table, columns in {
        "iterations": ("started_at", "ended_at"),
        "calls": ("started_at", "answered_at"),
        "agents": ("updated_at",),
        "memories": ("created_at",),
        "graph_journal": ("written_at",),
        "page_probes": ("checked_at", "changed_at"),
        "investigation_requests": ("created_at", "answered_at", "dropped_at"),
    }.items()
]


class Corpus:
    """A folder with a part of the built-in corpus."""

    def __init__(self, folder: Path, mission: str, count: int) -> None:
        self._folder = folder
        names = {word.strip(",.") for word in mission.split() if word[0].isupper()}
        documents = load(DEFAULT_CORPUS).documents
        # What the mission is about, and the first others.
        ranked = sorted(
            documents, key=lambda document: document.title.partition(":")[0] not in names
        )
        self._texts = dict(enumerate(ranked[:count]))
        for number in self._texts:
            self._write(number)

    def change(self, number: int, source: random.Random) -> str:
        """Changes the figures of some lines of a document; returns its title."""
        document = self._texts[number]
        lines = document.text.splitlines()
        with_figures = [index for index, line in enumerate(lines) if re.search(r"\d{2}", line)]
        for index in source.sample(with_figures, min(CHANGED_LINES, len(with_figures))):
            lines[index] = re.sub(
                r"\d(?=\d)", lambda digit: str((int(digit[0]) + 1) % 10), lines[index], count=1
            )
        self._texts[number] = Document(
            document.title, "\n".join(lines), document.url, document.published
        )
        self._write(number)
        return document.title

    def _write(self, number: int) -> None:
        document = self._texts[number]
        body = document.text.replace("\n", "\n\n")
        head = f"---\ntitle: {document.title}\nurl: {document.url}\n---\n"
        (self._folder / f"{number:03}.md").write_text(f"{head}# {document.title}\n\n{body}\n")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tokens.day", description=__doc__)
    parser.add_argument("--ticks", type=int, default=TICKS)
    parser.add_argument("--mission", choices=[each.name for each in MISSIONS], default="andes")
    arguments = parser.parse_args()
    mission = next(each for each in MISSIONS if each.name == arguments.mission)
    console = Console(width=150)
    source = random.Random(SEED)
    changes = int(DOCUMENTS * CHANGING * arguments.ticks / TICKS) or 1
    changed_at = dict(
        zip(
            sorted(source.sample(range(FIRST_CHANGE, arguments.ticks + 1), changes)),
            # The mission's own documents are the first.
            source.sample(range(DOCUMENTS), changes),
            strict=True,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus(Path(folder), mission.text, DOCUMENTS)
        statuses: list[str] = []

        def ticks(
            watch: IterationWatch, agent: AgentDetails, count: int, connection: psycopg.Connection
        ) -> Iterator[IterationDetails]:
            for number in range(1, count + 1):
                if number > 1:
                    _move_clock(connection)
                if number in changed_at:
                    title = corpus.change(changed_at[number], source)
                    print(f"tick {number}: {title} changes", file=sys.stderr, flush=True)
                iteration = watch.watch_iteration(agent.id, number, count)
                if iteration is None:
                    return
                statuses.append(iteration.status)
                yield iteration

        recording = record(
            mission.text,
            arguments.ticks,
            Console(stderr=True, quiet=True),
            corpus=folder,
            ticks=ticks,
        )
    calls = counted(recording)
    hits = cached_tokens(calls, INTERVAL_SECONDS)
    usd = PRICES[PRICED].usd(
        sum(call.input for call in calls), sum(hits), sum(call.output for call in calls)
    )
    searches = len(recording.searches)
    days = arguments.ticks / TICKS
    total = (usd + SEARCH_USD * searches) / days
    counts = Counter(statuses)
    console.print(
        f"{arguments.ticks} ticks, {changes} changes: {dict(counts)}; {len(calls)} model calls, {searches} paid searches\n"
        f"a day: {PRICED} ${usd / days:.2f} + searches ${SEARCH_USD * searches / days:.2f} = ${total:.2f}"
        f" (at most {MAX_USD})"
    )
    _show_hours(console, statuses)
    return int(total > MAX_USD)


def _move_clock(connection: psycopg.Connection) -> None:
    """Everything is five minutes older, and the next iteration is due."""
    for statement in _OLDER:
        age = f"interval '{INTERVAL_SECONDS:g} seconds'"
        connection.execute(statement.replace(":age", age).encode())
    connection.execute("update agents set next_run_at = clock_timestamp()")


def _show_hours(console: Console, statuses: Sequence[str]) -> None:
    """A character for each tick, a line for each three hours."""
    for first in range(0, len(statuses), 36):
        marks = "".join(
            "." if status == "quiet" else "#" for status in statuses[first : first + 36]
        )
        console.print(f"  {first // 12:02}:00 {marks}")


if __name__ == "__main__":
    sys.exit(main())
