"""A request is taken apart and put together again word for word."""

from hashlib import sha256

import pytest

from shared.store import contexts

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
    short, digest = contexts.apart(request, CONTEXT)
    assert digest == sha256(CONTEXT.encode()).digest()
    assert contexts.is_apart(short)
    assert "messages" not in short, "an older reader would ask the model without them"
    assert contexts.whole(short, CONTEXT) == request


@pytest.mark.parametrize("context", ["", CONTEXT.replace("Ghana", "Togo")])
def test_what_does_not_hold_the_words_is_left_whole(context: str) -> None:
    request = request_of(f"Mission\n{CONTEXT}\nTask")
    assert contexts.apart(request, context) == (request, None)
    assert not contexts.is_apart(request)
