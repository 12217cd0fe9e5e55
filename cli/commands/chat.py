"""`vigil chat`: talk with an agent."""

from typing import Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url


def chat(
    agent: AgentName,
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="[MESSAGE]",
            help="What to say, - for what stands on stdin; without it you talk until you leave.",
        ),
    ] = None,
    history: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show the last N messages, and end.")
    ] = None,
    follow: Annotated[
        str | None, typer.Option(metavar="ID", help="Read on in an answer that goes on, and end.")
    ] = None,
    retry: Annotated[
        str | None, typer.Option(metavar="ID", help="Have a failed answer tried again.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Talk with an agent. Ctrl-C leaves an answer running; it can be read later."""
    import sys

    from cli.chatting import Chat, message_id_of
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.chat import for_people, for_programs
    from cli.render.console import err, out

    with Client(api_url(url, data)) as client:
        name = client.agent(agent).name
        show = for_programs() if as_json else for_people(out(), err(), name)
        talk = Chat(client, name, show)
        if history is not None:
            talk.history(history)
        elif follow is not None:
            talk.follow(message_id_of(follow))
        elif retry is not None:
            talk.retry(message_id_of(retry))
        elif message is not None or not sys.stdin.isatty():
            talk.say(message if message not in (None, "-") else sys.stdin.read())
        else:
            talk.until_left(sys.stdin)
