"""A request is taken apart and put together again word for word."""

from hashlib import sha256

import pytest

from shared.llm import phase_run_store

CONTEXT = "2 nodes\n- [node:1] “Ghana”"


def request_of(content: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}], "tools": ["queryGraph"]}


@pytest.mark.parametrize(
    "content",
    [
        f"Mission\n{CONTEXT}\nTask",
        CONTEXT,
        f"{CONTEXT}{CONTEXT}",
        f"{CONTEXT[:4]}{CONTEXT}",
    ],
)
def test_what_was_taken_apart_is_put_together_again(content: str) -> None:
    request = request_of(content)
    short, digest = phase_run_store.split_context(request, CONTEXT)
    assert digest == sha256(CONTEXT.encode()).digest()
    assert phase_run_store.is_split(short)
    assert "messages" not in short, "an older reader would ask the model without them"
    assert phase_run_store.restore_request(short, CONTEXT) == request


@pytest.mark.parametrize("context", ["", CONTEXT.replace("Ghana", "Togo")])
def test_what_does_not_hold_the_words_is_left_whole(context: str) -> None:
    request = request_of(f"Mission\n{CONTEXT}\nTask")
    assert phase_run_store.split_context(request, context) == (request, None)
    assert not phase_run_store.is_split(request)
