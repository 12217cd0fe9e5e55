"""`vigil up`, `demo` and `try-model`: commands that start an installation on this machine."""

import os
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from cli.config.durations import parse_seconds
from cli.config.providers import (
    DEFAULT_CORPUS,
    CheckedCorpus,
    Providers,
    check_corpus,
    check_settings,
    chosen_corpus,
    read_settings,
    refuse_unreadable,
)
from cli.corpora import read_folder
from cli.errors import BadInputError
from cli.main import INTERRUPTED
from cli.options import AsJson, Corpus, Data, finite
from cli.render.console import err, out, print_json
from cli.render.operations import (
    Activity,
    show_corpus,
    show_local_servers,
    show_process_events,
    show_ready,
    show_sign_in,
    show_unreached,
)

if TYPE_CHECKING:
    from rich.console import Console

    from cli.demo import Demo
    from cli.local.data_directory import DataDirectory

POLL_SECONDS: Final = 0.5
DEFAULT_MISSION: Final = (
    "Watch energy supply and exports of West African economies, and find what investors should know"
)

Keep = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep the data in this directory, for `vigil up --data DIR`."),
]


def up(
    data: Data = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65_535,
            help="Port of the API. If you leave it out and the default port is in use, a free port is chosen.",
            show_default="8080",
        ),
    ] = None,
    corpus: Corpus = None,
    separate: Annotated[
        bool,
        typer.Option(
            "--separate",
            help="Run each service in its own process, which takes more memory. By default, two processes run all of them.",
        ),
    ] = False,
) -> None:
    """Run Vigil on this machine (PostgreSQL, NATS, all services and the API) until Ctrl-C.

    The data directory keeps all data for the next start. With OPENAI_API_KEY and TAVILY_API_KEY set, the real services
    are used; the sandbox replaces those without a key. A model server that already runs on this machine (Ollama,
    llama.cpp, LM Studio, vLLM) is named, with the command that uses it.
    """
    from cli.config.local_servers import find_local_servers
    from cli.local.data_directory import DataDirectory, default_data_directory
    from cli.provider_check import require_accepted_keys, unreachable_providers

    settings = read_settings()
    check_settings(settings)
    providers = Providers.from_settings(settings, chosen_corpus(corpus))
    console = out()
    checked = read_corpus(console, providers)
    unreached = unreachable_providers(settings, providers)
    require_accepted_keys(unreached)
    show_unreached(console, unreached)
    if providers.model is None:
        show_local_servers(console, find_local_servers(), "vigil up")
    directory = DataDirectory(data or default_data_directory())
    if not _serve(directory, providers, port, checked, separate=separate):
        raise typer.Exit(INTERRUPTED)


def _serve(
    directory: "DataDirectory",
    providers: Providers,
    port: int | None,
    checked: CheckedCorpus | None,
    *,
    separate: bool,
) -> bool:
    """Runs the installation until it is interrupted. Returns whether it was up by then."""
    from cli.local.members import API, DOCUMENTED_PORTS, busy_ports, usual_ports
    from cli.local.ports import require_free
    from cli.local.supervisor import installation

    api_port = port or DOCUMENTED_PORTS[API]

    def choose_ports() -> dict[str, int]:
        if port is not None:
            require_free(port, "--port")
        return usual_ports(api_port)

    console = out()
    is_up = False
    try:
        with (
            Activity(err()) as activity,
            installation(
                directory, providers, choose_ports, activity.say, separate=separate
            ) as stack,
        ):
            activity.end()
            is_up = True
            running = stack.running
            moved = busy_ports(running.ports, api_port)
            show_ready(console, running, directory, providers.sentence(), moved)
            if checked:
                show_corpus(console, checked, sandbox_model=providers.model is None)
            # Imported here, because it takes as long as an engine to start.
            from cli.client.client import Client

            with Client(stack.api) as client:
                show_sign_in(console, client.make_link())
            while True:
                show_process_events(console, stack.look_after())
                time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        console.print("[quiet]Vigil has stopped. The data is kept.[/]")
    return is_up


def demo(
    mission: Annotated[
        str | None,
        typer.Option(help="What the agent should watch and why.", show_default=DEFAULT_MISSION),
    ] = None,
    corpus: Corpus = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=100,
            help="Number of iterations to run.",
            show_default="until there is advice, up to 5",
        ),
    ] = None,
    keep: Keep = None,
    stay: Annotated[
        bool | None,
        typer.Option(
            "--stay/--exit",
            help="At the end, keep the installation running until Ctrl-C and print a sign-in link, or exit.",
            show_default="--stay in a terminal without --json, else --exit",
        ),
    ] = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float,
        typer.Option(min=5, callback=finite, help="Maximum number of seconds that the demo runs."),
    ] = 300,
) -> None:
    """Watch a new agent plan, research, analyze and advise in a separate installation.

    The agent works until it gives advice, whose evidence is then checked. In a terminal, the demo then prints a sign-in
    link and keeps running until Ctrl-C. The data is deleted at the end unless --keep is given. Without --mission, one
    is made from the corpus. With --json, the last line on stdout is one JSON object, and progress goes to stderr.

    Exits with 0 if there is advice and its verification holds, 1 if there is no advice or its verification failed, 2 if
    the command is invalid, and 130 after Ctrl-C.
    """
    from cli.local.signals import StopSignals

    start = time.monotonic()
    console = err() if as_json else out()
    try:
        with StopSignals() as signals:
            from cli.demo import run_demo

            options = _prepare_demo(
                console,
                mission,
                corpus,
                iterations=iterations,
                keep=keep,
                started=start,
                timeout_seconds=timeout,
                as_json=as_json,
                stays=stay if stay is not None else sys.stdout.isatty() and not as_json,
            )
            code = run_demo(options, signals)
    except KeyboardInterrupt:
        kept = f"the data is kept in {keep}" if keep else "the data is removed"
        console.print(f"\n[quiet]Interrupted. Everything is stopped and {kept}.[/]")
        raise typer.Exit(INTERRUPTED) from None
    raise typer.Exit(code)


def _prepare_demo(
    console: "Console", mission: str | None, corpus: Path | None, **options: Any
) -> "Demo":
    """Reads the settings and the corpus, and makes a mission from it if none is given. Raises BadInputError."""
    from cli.demo import Demo

    settings = read_settings()
    check_settings(settings)
    providers = Providers.from_settings(settings, chosen_corpus(corpus))
    checked = read_corpus(console, providers)
    if checked and providers.model is None:
        refuse_unreadable(providers.corpus, checked)
    is_derived = providers.corpus_was_chosen and mission is None
    if mission is None:
        mission = (checked.mission if checked else "") or DEFAULT_MISSION
    return Demo(
        mission=mission,
        settings=settings,
        providers=providers,
        corpus=checked,
        mission_is_derived=is_derived,
        **options,
    )


def read_corpus(console: "Console", providers: Providers) -> CheckedCorpus | None:
    """Reads the corpus if the sandbox needs it, with progress on the console. Raises BadInputError."""
    if not providers.needs_sandbox:
        return None
    return read_folder(console, providers.corpus)


def try_model(
    server: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Base URL of the model server, which usually ends in /v1.",
            show_default="OPENAI_BASE_URL, or OpenAI",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Model to request from the server.",
            show_default="OPENAI_MODEL, or the only one that --url lists",
        ),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable that holds the API key. A server named with --url receives no other key.",
            show_default="OPENAI_API_KEY, without --url",
        ),
    ] = None,
    budget_usd: Annotated[
        float, typer.Option(min=0.01, max=1000, help="Maximum cost of the trial.")
    ] = 0.50,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="IN,OUT",
            help="Price in USD per million input and output tokens, if the model is not in the price list.",
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            min=0, max=20, help="Number of iterations to run; 0 tests only the configuration."
        ),
    ] = 1,
    time_limit: Annotated[
        str, typer.Option(metavar="DURATION", help="Time after which the trial stops and reports.")
    ] = "2h",
    wait: Annotated[
        str,
        typer.Option(metavar="DURATION", help="How long to wait for the server's first answer."),
    ] = "10s",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to save the report.",
            show_default="./vigil-model-report-MODEL-DATE.json",
        ),
    ] = None,
    keep: Keep = None,
    compare: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="REPORT",
            help="Print this saved report instead of running a trial. Repeat to compare reports side by side.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Test a model on a fixed mission and report what it can do.

    Starts a temporary installation with the model server that --url or the environment names, and the sandbox as the
    search service over the CIA World Factbook. One agent is configured and runs its iterations. The report says which
    phases worked, what was refused and repaired, what it cost, and how many of the written facts are correct. If no
    server is configured, the sandbox is tested, which is not a language model.

    Ctrl-C ends the trial with a report of what was done so far. Exits with 0 if every phase that ran worked, 1 if some
    did not, and 2 if the command is invalid or the server cannot be used.
    """
    from cli.render.trial import show_announcement, show_comparison, show_report
    from cli.trial.preflight import chosen_server
    from cli.trial.report import read_report
    from cli.trial.run import Trial, run_trial
    from shared.runtime.prices import load_prices

    if compare:
        reports = [read_report(path) for path in compare]
        if as_json:
            print_json(reports)
        else:
            show_comparison(out(), reports)
        return
    directory = output.expanduser().absolute().parent if output else Path.cwd()
    if not os.access(directory, os.W_OK):
        raise BadInputError(
            f"cannot save the report in {directory}: name another file with --output"
        )
    settings = read_settings()
    check_corpus(DEFAULT_CORPUS)
    trial = Trial(
        server=chosen_server(settings, server, model, key_env),
        prices=load_prices(settings),
        price=price,
        iterations=iterations,
        budget_usd=Decimal(str(budget_usd)),
        output_tokens=settings.max_output_tokens,
        time_limit_seconds=parse_seconds(time_limit),
        wait_seconds=parse_seconds(wait),
        keep=keep,
    )
    console = err() if as_json else out()
    show_announcement(console, trial)
    try:
        report = run_trial(console, trial)
    except KeyboardInterrupt:
        console.print("\n[quiet]Interrupted before anything was tested. Everything is stopped.[/]")
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(report)
    else:
        show_report(console, report)
    file = output or Path.cwd() / report.file_name
    report.save(file)
    console.print(f"\nSaved the report in [link]{file}[/].")
    if report.run.ended == "interrupted":
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if report.verdict.is_good else 1)
