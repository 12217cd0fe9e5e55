"""`vigil up`: a whole installation, until Ctrl-C."""

from typing import Annotated

import typer

from cli.options import Corpus, Data

LOOK_SECONDS = 0.25


def up(
    data: Data = None,
    port: Annotated[
        int, typer.Option(help="Port of the API; another one is taken where it is not free.")
    ] = 8080,
    corpus: Corpus = None,
) -> None:
    """Run Vigil on this machine: PostgreSQL, NATS, every actor and the API, until Ctrl-C.

    Data stay in the data directory and are there again at the next start. With OPENAI_API_KEY and TAVILY_API_KEY set
    the real services are used; the sandbox answers in place of those that are not.
    """
    import time

    from cli.access_client import AccessClient
    from cli.config.providers import Outside, check_corpus, chosen_corpus, read_settings
    from cli.doctor.outside import unreached
    from cli.local.data_directory import DataDirectory, default_data_directory
    from cli.local.members import taken, usual_ports
    from cli.local.supervisor import installation
    from cli.render.console import out
    from cli.render.operations import (
        Activity,
        show_happened,
        show_ready,
        show_sign_in,
        show_unreached,
    )

    settings = read_settings()
    outside = Outside.from_settings(settings, chosen_corpus(corpus))
    if outside.needs_sandbox:
        check_corpus(outside.corpus)
    directory = DataDirectory(data or default_data_directory())
    console = out()
    show_unreached(console, unreached(settings, outside))
    try:
        with (
            Activity(console) as activity,
            installation(directory, outside, lambda: usual_ports(port), activity.say) as stack,
        ):
            activity.rest()
            running = stack.running
            others = taken(running.ports, port)
            show_ready(console, running, directory, outside.sentence(), others)
            with AccessClient(stack.api) as client:
                show_sign_in(console, client.make_link())
            while True:
                show_happened(console, stack.look_after())
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        console.print("[quiet]Vigil has ended; the data is kept.[/]")
