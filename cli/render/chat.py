"""A conversation in a terminal, or as JSON for programs."""

import json
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.render.console import (
    harmless_json,
    print_json,
    quoted,
    short_id,
    with_short_citations,
)
from shared.schemas.conversation import MessageResponse, ToolUseResponse
from shared.wording import ago

_TOOLS: Final = {
    "queryGraph": "queries the graph",
    "tavilySearch": "searches the web",
    "remember": "remembers",
}


class Show:
    """Prints a conversation as JSON: the complete message at its end; earlier messages one per line."""

    def print_text(self, text: str) -> None:
        """Prints more of the answer."""

    def restart(self) -> None:
        """The answer starts again: the printed part is discarded."""

    def tool_uses(self, use: ToolUseResponse) -> None:
        """Prints that the agent uses a tool."""

    def finish(self, message: MessageResponse) -> None:
        """The answer is complete, or has failed."""
        print_json(message)

    def message(self, message: MessageResponse) -> None:
        """Prints an earlier message."""
        print(harmless_json(json.dumps(message.model_dump(mode="json"), ensure_ascii=False)))

    def hint(self, text: str) -> None:
        """Prints a note next to the conversation."""


class ShowText(Show):
    """Prints a conversation as text."""

    def __init__(self, out: Console, notes: Console, name: str) -> None:
        self._out = out
        self._notes = notes
        self._name = name
        self._is_in_line = False

    def print_text(self, text: str) -> None:
        self._is_in_line = True
        self._out.print(with_short_citations(text), end="", markup=False)

    def restart(self) -> None:
        self._end_line()
        self.hint("restarting the answer")

    def tool_uses(self, use: ToolUseResponse) -> None:
        self._end_line()
        about = f": {use.about}" if use.about else ""
        self.hint(f"{self._name} {_TOOLS.get(use.tool, use.tool)}{about}")

    def finish(self, message: MessageResponse) -> None:
        self._end_line()
        if message.status == "failed":
            self._notes.print(f"[bad]no answer:[/] {escape(message.error or '')}")
            self.hint(f"retry: vigil chat {quoted(self._name)} --retry {short_id(message.id)}")
        for citation in message.citations:
            reference = f"[{citation.kind}:{short_id(citation.id)}]"
            if citation.name is None:
                self.hint(f"{reference} does not exist; the model invented it")
            else:
                self.hint(f"{reference} {citation.type} {citation.name}")

    def message(self, message: MessageResponse) -> None:
        author = "You" if message.role == "user" else self._name
        heading = f"[title]{escape(author)}[/] [quiet]{ago(message.created_at)}"
        if message.status != "complete":
            option = "--retry" if message.status == "failed" else "--follow"
            heading += f", {message.status}: vigil chat {quoted(self._name)} {option} {short_id(message.id)}"
        self._out.print(f"{heading}[/]")
        self._out.print(escape(with_short_citations(message.content)))
        self._out.print()

    def hint(self, text: str) -> None:
        self._notes.print(f"[quiet]{escape(text)}[/]")

    def _end_line(self) -> None:
        if self._is_in_line:
            self._out.print()
            self._is_in_line = False
