"""Conversations with a model server through Vigil's own client, with two turns of tool calls."""

import asyncio
from collections.abc import Sequence

from cli.trial.preflight import Probe, Server, Turns
from shared.errors import VigilError
from shared.llm.conformance import REQUESTS, Conversation, converse, request_of, unrecorded_call
from shared.llm.model_server import Limits, ModelServer, Stream
from shared.llm.provider import ChatProvider
from shared.runtime.providers import NO_KEY

USUAL_FIELDS = frozenset({"role", "content", "tool_calls", "id", "type", "function"})
WAYS: Sequence[tuple[str, str, Stream]] = (
    (REQUESTS["tools"], "tools", "auto"),
    (f"{REQUESTS['tools']}, not streamed", "tools", "never"),
    (REQUESTS["forced"], "forced", "auto"),
    (REQUESTS["structured"], "structured", "auto"),
)


async def try_turns(server: Server, model: str, seconds: float) -> Turns:
    """Holds each conversation, for `seconds` at most."""
    probes: dict[str, Probe] = {}
    notes: dict[str, None] = {}
    for name, kind, stream in WAYS:
        warnings: list[str] = []
        connection = ModelServer(
            api_key=server.key or NO_KEY,
            base_url=server.url,
            limits=Limits(whole=seconds, first_token=seconds, total=seconds),
            stream=stream,
            warn=warnings.append,
        )
        try:
            async with asyncio.timeout(seconds):
                conversation = await converse(
                    ChatProvider(connection), request_of(kind, model), unrecorded_call()
                )
            probes[name] = _judged(kind, conversation)
            notes |= dict.fromkeys(_kept(conversation))
        except TimeoutError:
            probes[name] = Probe(works=False, detail=f"no answer within {seconds:.0f} s")
        except VigilError as error:
            probes[name] = Probe(works=False, detail=server.without_secrets(str(error)))
        finally:
            await connection.close()
        notes |= dict.fromkeys(map(server.without_secrets, warnings))
    return Turns(conversations=probes, notes=list(notes))


def _judged(kind: str, conversation: Conversation) -> Probe:
    if kind in ("tools", "forced") and conversation.calls < 2:
        turns = f"it called the tool {conversation.calls} times instead of twice"
        return Probe(works=False, detail=f"{turns}, and answered: {conversation.text[:200]}")
    if not conversation.is_complete:
        return Probe(works=False, detail=f"it did not find the word: {conversation.text[:200]}")
    return Probe(works=True, detail="the answer is right")


def _kept(conversation: Conversation) -> list[str]:
    """The fields that the server gets back because it has sent them with its calls."""
    messages = [answer.message for answer in conversation.answers if answer.tool_calls]
    parts = [*messages, *(call for message in messages for call in message["tool_calls"])]
    names = sorted({name for part in parts for name in part} - USUAL_FIELDS)
    return [f"What it sends with its calls is sent back: {', '.join(names)}"] if names else []
