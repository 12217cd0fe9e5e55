"""A conversation with an agent: said, and heard across every break of the connection."""

import time
from dataclasses import dataclass
from typing import Final, TextIO
from uuid import UUID

from httpx_sse import ServerSentEvent

from cli.client.client import Client
from cli.errors import AwayError, BadInputError, CommandError
from cli.render.chat import Show
from shared.schemas.conversation import LookView, MessageView, TextPiece

COME_AGAIN_SECONDS: Final = 0.5
PROMPT: Final = "> "
LEAVE: Final = frozenset({"/quit", "/exit", "/bye"})


class NoAnswerError(CommandError):
    """The answer failed, which has been shown."""


@dataclass(frozen=True)
class Chat:
    client: Client
    agent: str
    show: Show

    def say(self, content: str) -> None:
        """Says it and shows the answer as it comes. Raises CommandError where there is none."""
        if not content.strip():
            raise BadInputError("there is nothing to say: give a MESSAGE, or write it to stdin")
        turn = self.client.say(self.agent, content)
        if turn.answer.status == "waiting":
            self.show.hint("earlier messages are answered first")
        self.follow(turn.answer.id)

    def follow(self, message_id: UUID) -> None:
        """Shows the answer from its beginning to its end. Raises CommandError where it failed."""
        try:
            ended = self._heard(message_id)
        except KeyboardInterrupt:
            name = f'"{self.agent}"' if " " in self.agent else self.agent
            self.show.hint(f"the answer goes on; read on: vigil chat {name} --follow {message_id}")
            raise
        if ended.status == "failed":
            raise NoAnswerError(f"the agent gave no answer: {ended.error}")

    def retry(self, message_id: UUID) -> None:
        self.client.retry_answer(self.agent, message_id)
        self.follow(message_id)

    def history(self, count: int) -> None:
        """The last messages, the oldest of them first."""
        for message in reversed(list(self.client.messages(self.agent, count))):
            self.show.message(message)

    def until_left(self, typed: TextIO) -> None:
        """Reads lines until the end of the input, /quit, or Ctrl-C; a failed answer ends nothing."""
        self.show.hint(f"You talk with {self.agent}. /quit or Ctrl-D leaves.")
        while (line := self._line(typed)) is not None:
            try:
                self.say(line)
            except (BadInputError, NoAnswerError):
                continue
            except AwayError:
                raise
            except CommandError as error:
                self.show.hint(str(error))

    def _line(self, typed: TextIO) -> str | None:
        print(PROMPT, end="", flush=True)
        line = typed.readline()
        return None if not line or line.strip() in LEAVE else line

    def _heard(self, message_id: UUID) -> MessageView:
        place: str | None = None
        is_away = False
        while True:
            try:
                for sent in self.client.answer(self.agent, message_id, place):
                    place, is_away = sent.id or place, False
                    if (ended := self._told(sent)) is not None:
                        return ended
            except AwayError as error:
                if place is None:
                    raise
                if not is_away:
                    self.show.hint(f"{error}; going on when it is back")
                is_away = True
            time.sleep(COME_AGAIN_SECONDS)

    def _told(self, sent: ServerSentEvent) -> MessageView | None:
        """The message, where that is its end."""
        match sent.event:
            case "text":
                self.show.said(TextPiece.model_validate_json(sent.data).text)
            case "tool":
                self.show.looked(LookView.model_validate_json(sent.data))
            case "restart":
                self.show.restarted()
            case "complete" | "failed":
                message = MessageView.model_validate_json(sent.data)
                self.show.ended(message)
                return message
        return None


def message_id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise BadInputError(
            f"{text!r} is no id of a message: see vigil chat AGENT --history 10"
        ) from error
