"""Chat completions in OpenAI's format, whole and in chunks."""

import json
import math
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from sandbox.model.request import Answer

CREATED = 0
"""Constant, so that the same request gets the same bytes."""
CHUNK_WORDS = 6
CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4


def error_body(
    message: str, kind: str, code: str | None, param: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's format."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def count_tokens(text: str) -> int:
    """An estimate: four characters per token, rounded up."""
    return math.ceil(len(text) / CHARS_PER_TOKEN)


def usage_of(messages: list[Any], tools: list[Any], answer: Answer) -> dict[str, int]:
    """Usage: the estimated tokens of the request and the answer."""
    texts = [json.dumps(each, ensure_ascii=False) for each in (*messages, *tools)]
    prompt = sum(map(count_tokens, texts)) + TOKENS_PER_MESSAGE * len(messages)
    completion = _answer_tokens(answer)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def truncate(limit: object, answer: Answer) -> Answer:
    """Cut `answer` off at `limit` tokens, without its calls; unchanged if `limit` is no number."""
    if not isinstance(limit, int) or _answer_tokens(answer) <= limit:
        return answer
    characters = max(limit - TOKENS_PER_MESSAGE, 0) * CHARS_PER_TOKEN
    return Answer(answer.text[:characters], is_cut=True)


def _answer_tokens(answer: Answer) -> int:
    calls = "".join(call.name + call.arguments for call in answer.calls)
    return TOKENS_PER_MESSAGE + count_tokens(answer.text) + count_tokens(calls)


def tool_calls(request_hash: str, answer: Answer) -> list[dict[str, Any]]:
    """Tool calls in OpenAI's format; ids are hashes of the request and the index of the call."""
    digests = (sha256(f"{request_hash} {place}".encode()) for place in range(len(answer.calls)))
    return [
        {
            "id": f"call_{digest.hexdigest()[:24]}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for digest, call in zip(digests, answer.calls, strict=True)
    ]


def _envelope(kind: str, model: str, request_hash: str) -> dict[str, Any]:
    """The fields that a completion and each of its chunks have."""
    return {
        "id": f"chatcmpl-{request_hash[:24]}",
        "object": kind,
        "created": CREATED,
        "model": model,
        "system_fingerprint": "sandbox",
    }


def completion(
    model: str, request_hash: str, answer: Answer, usage: Mapping[str, int]
) -> dict[str, Any]:
    """The answer as one object."""
    calls = tool_calls(request_hash, answer)
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    message |= {"tool_calls": calls} if calls else {"content": answer.text}
    choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
    own = {"choices": [choice], "usage": dict(usage)}
    return _envelope("chat.completion", model, request_hash) | own


def chunks(
    model: str, request_hash: str, answer: Answer, usage: Mapping[str, int] | None
) -> Iterator[dict[str, Any]]:
    """The answer as chunks of a stream; `usage`, if given, comes last without choices."""
    envelope = _envelope("chat.completion.chunk", model, request_hash)
    for delta in _deltas(request_hash, answer):
        yield {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]}
    if usage:
        yield {**envelope, "choices": [], "usage": dict(usage)}


def _deltas(request_hash: str, answer: Answer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if answer.text else None}
    for piece in _pieces(answer.text):
        yield {"content": piece}
    for place, call in enumerate(tool_calls(request_hash, answer)):
        function = call["function"]
        opening = {**call, "index": place, "function": {"name": function["name"], "arguments": ""}}
        yield {"tool_calls": [opening]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces of CHUNK_WORDS words."""
    parts = text.split(" ")
    for start in range(0, len(parts), CHUNK_WORDS):
        piece = " ".join(parts[start : start + CHUNK_WORDS])
        if piece or start:
            yield f" {piece}" if start else piece


def _finish(answer: Answer) -> str:
    if answer.is_cut:
        return "length"
    return "tool_calls" if answer.calls else "stop"
