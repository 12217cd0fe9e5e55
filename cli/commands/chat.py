"""`vigil chat` and `vigil memory …`: talk with an agent, and what it remembers."""

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, TextIO
from uuid import UUID

import typer
from httpx_sse import ServerSentEvent

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.errors import AwayError, BadInputError, CommandError
from cli.options import AgentName, AsJson
from cli.references import Named, find_id
from cli.render.agents import memory_kind, show_memories
from cli.render.chat import Show, ShowText
from cli.render.console import err, out, quoted, short_id
from shared.schemas.conversation import (
    ConversationTurn,
    MemoryResponse,
    MessageResponse,
    TextPiece,
    ToolUseResponse,
)
from shared.wording import clip

RECONNECT_SECONDS: Final = 0.5
PROMPT: Final = "> "
LEAVE: Final = frozenset({"/quit", "/exit", "/bye"})

memory_commands = command_group(
    "memory", "Manage the preferences and facts that an agent remembers."
)


@api_command
def chat(
    client: Client,
    agent: AgentName,
    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE",
            help="The message to send; - reads it from standard input. Without a message, an interactive chat starts.",
        ),
    ] = None,
    history: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show the last N messages and exit.")
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Show an answer that is still being written and exit when it ends."
        ),
    ] = None,
    retry: Annotated[str | None, typer.Option(metavar="ID", help="Retry a failed answer.")] = None,
    as_json: AsJson = False,
) -> None:
    """Chat with an agent. Ctrl-C does not stop an answer; you can read it later."""
    name = client.agent(agent).name
    show = Show() if as_json else ShowText(out(), err(), name)
    conversation = Chat(client, name, show)
    if history is not None:
        conversation.show_history(history)
    elif follow is not None:
        conversation.follow(conversation.find_message(follow))
    elif retry is not None:
        conversation.retry(conversation.find_message(retry))
    elif message is not None or not sys.stdin.isatty():
        conversation.say(message if message not in (None, "-") else sys.stdin.read())
    else:
        conversation.talk(sys.stdin)


@memory_commands.command("list")
@api_command
def list_memories(
    client: Client,
    agent: AgentName,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Show only forgotten preferences and facts.")
    ] = False,
) -> Result:
    """List the preferences and facts that you gave an agent."""
    path = client.agent_path(agent, "memories")
    memories = list(client.pages(MemoryResponse, path, forgotten=forgotten))
    return Result(memories, partial(show_memories, forgotten=forgotten))


@memory_commands.command("add")
@api_command
def add_memory(
    client: Client,
    agent: AgentName,
    content: Annotated[
        str, typer.Argument(metavar="TEXT", help="The preference or fact, in a sentence.")
    ],
    fact: Annotated[
        bool, typer.Option("--fact", help="Store it as a fact instead of a preference.")
    ] = False,
) -> Result:
    """Give an agent a preference or a fact to consider in its next plan."""
    body = {"kind": "fact" if fact else "wish", "content": content}
    memory = client.post(MemoryResponse, client.agent_path(agent, "memories"), body)
    return Result(
        memory,
        f"Remembered as a {memory_kind(memory)}. The next plan takes it into account.",
    )


@memory_commands.command("forget")
@api_command
def forget_memory(
    client: Client,
    agent: AgentName,
    memory: Annotated[
        str,
        typer.Argument(
            metavar="MEMORY", help="Beginning of the text, or id, of the preference or fact."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Make an agent forget a preference or a fact."""
    memory_id = find_id(
        "memory",
        memory,
        client.pages(MemoryResponse, client.agent_path(agent, "memories"), forgotten=False),
        lambda each: Named(each.id, [each.content]),
        see="vigil memory list AGENT",
    )
    client.delete(client.agent_path(agent, "memories", memory_id))
    typer.echo(json.dumps({"forgotten": str(memory_id)}) if as_json else "Forgotten.")


class NoAnswerError(CommandError):
    """The answer failed; the failure has been shown."""


@dataclass(frozen=True)
class Chat:
    """A conversation with one agent; answers are followed across connection losses."""

    client: Client
    agent: str
    show: Show

    def _path(self, *parts: object) -> str:
        return self.client.agent_path(self.agent, "conversation", "messages", *parts)

    def say(self, content: str) -> None:
        """Sends the message and shows the answer as it arrives. Raises CommandError if it fails."""
        if not content.strip():
            raise BadInputError(
                "the message is empty: give a MESSAGE or write one to standard input"
            )
        turn = self.client.post(ConversationTurn, self._path(), {"content": content})
        if turn.answer.status == "waiting":
            self.show.hint("waiting: earlier messages are answered first")
        self.follow(turn.answer.id)

    def follow(self, message_id: UUID) -> None:
        """Shows the answer from its beginning to its end. Raises CommandError if it failed."""
        try:
            message = self._stream_answer(message_id)
        except KeyboardInterrupt:
            command = f"vigil chat {quoted(self.agent)} --follow {short_id(message_id)}"
            self.show.hint(f"the answer continues; to read it: {command}")
            raise
        if message.status == "failed":
            raise NoAnswerError(f"the agent gave no answer: {message.error}")

    def find_message(self, reference: str) -> UUID:
        """The message with this id, or the beginning of it. Raises CommandError."""
        return find_id(
            "message",
            reference,
            self.client.pages(MessageResponse, self._path()),
            lambda each: Named(each.id, [clip(each.content, 40) or each.status]),
            see=f"vigil chat {quoted(self.agent)} --history 10",
        )

    def retry(self, message_id: UUID) -> None:
        self.client.post(MessageResponse, self._path(message_id, "retry"))
        self.follow(message_id)

    def show_history(self, count: int) -> None:
        """Shows the last `count` messages, oldest first."""
        newest_first = list(self.client.pages(MessageResponse, self._path(), count))
        for message in reversed(newest_first):
            self.show.message(message)

    def talk(self, lines: TextIO) -> None:
        """Sends each line until the end of the input, /quit or Ctrl-C. A failed answer does not end it."""
        self.show.hint(f"You are chatting with {self.agent}. Type /quit or press Ctrl-D to leave.")
        while (line := self._read_line(lines)) is not None:
            try:
                self.say(line)
            except (BadInputError, NoAnswerError):
                continue
            except AwayError:
                raise
            except CommandError as error:
                self.show.hint(str(error))

    def _read_line(self, lines: TextIO) -> str | None:
        print(PROMPT, end="", flush=True)
        line = lines.readline()
        return None if not line or line.strip() in LEAVE else line

    def _stream_answer(self, message_id: UUID) -> MessageResponse:
        """Shows the events of the answer, reconnecting after the last one, until it ends."""
        last_event_id: str | None = None
        is_away = False
        while True:
            try:
                path = self._path(message_id, "stream")
                for event in self.client.stream(path, last_event_id=last_event_id):
                    last_event_id, is_away = event.id or last_event_id, False
                    if (message := self._show_event(event)) is not None:
                        return message
            except AwayError as error:
                if last_event_id is None:
                    raise
                if not is_away:
                    self.show.hint(f"{error}; reconnecting")
                is_away = True
            time.sleep(RECONNECT_SECONDS)

    def _show_event(self, event: ServerSentEvent) -> MessageResponse | None:
        """The message, if the event is its last."""
        match event.event:
            case "text":
                self.show.print_text(TextPiece.model_validate_json(event.data).text)
            case "tool":
                self.show.tool_uses(ToolUseResponse.model_validate_json(event.data))
            case "restart":
                self.show.restart()
            case "complete" | "failed":
                message = MessageResponse.model_validate_json(event.data)
                self.show.finish(message)
                return message
        return None
