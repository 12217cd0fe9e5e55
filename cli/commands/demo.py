"""`vigil demo`: watch an agent work, from its mission to what it concludes."""

from pathlib import Path
from typing import Annotated

import typer

from cli.options import AsJson, Corpus, finite

DEFAULT_MISSION = (
    "Watch energy supply and exports of West African economies, and find what investors should know"
)


def demo(
    mission: Annotated[
        str | None,
        typer.Option(
            help="What the agent is to watch, and to what end.", show_default=DEFAULT_MISSION
        ),
    ] = None,
    corpus: Corpus = None,
    iterations: Annotated[
        int, typer.Option(min=1, max=100, help="How often the agent goes through its loop.")
    ] = 2,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the data here, for `vigil up --data DIR`."),
    ] = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float,
        typer.Option(
            min=5, callback=finite, help="Seconds after which the demo ends, done or not."
        ),
    ] = 300,
) -> None:
    """Watch a fresh agent plan, research, analyze and perhaps advise, on an installation of its own.

    Nothing is left behind, unless --keep says so. With --json the last line on stdout is one JSON object, and the
    progress goes to stderr. The exit code is 0 when at least one iteration completed.
    """
    import time

    from cli.config.providers import Outside, check_corpus, chosen_corpus, read_settings
    from cli.demo.show import Demo, put_on
    from cli.errors import BadInputError

    started = time.monotonic()
    settings = read_settings()
    outside = Outside.from_settings(settings, chosen_corpus(corpus))
    checked = check_corpus(outside.corpus) if outside.needs_sandbox else None
    if outside.corpus_was_chosen and mission is None:
        raise BadInputError(
            "a corpus of your own wants a mission: say what to watch with --mission"
        )
    wanted = Demo(
        mission=mission or DEFAULT_MISSION,
        settings=settings,
        outside=outside,
        corpus=checked,
        iterations=iterations,
        keep=keep,
        started=started,
        timeout_seconds=timeout,
        as_json=as_json,
    )
    raise typer.Exit(put_on(wanted))
