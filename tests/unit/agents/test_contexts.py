"""Texts are compressed with what they have in common with an earlier one, and read back unchanged."""

import random
import zlib

import pytest

from shared.agents.contexts import compress, decompress
from shared.llm.phase_run_store import restore_request

CONTEXT = "\n".join(f"- [node:{number:032x}] “Ghana {number}”" for number in range(300))


@pytest.mark.parametrize("dictionary", ["", "a", CONTEXT, CONTEXT * 3])
@pytest.mark.parametrize("text", ["", "ü", CONTEXT, f"Mission\n{CONTEXT}\nTask", CONTEXT[::-1]])
def test_a_text_is_read_back_with_its_dictionary(text: str, dictionary: str) -> None:
    assert decompress(compress(text, dictionary.encode()), dictionary.encode()) == text


def test_random_texts_are_read_back() -> None:
    chance = random.Random(5)
    for _ in range(200):
        letters = "".join(chance.choice("ab\n“漢") for _ in range(chance.randrange(300)))
        dictionary = letters[chance.randrange(len(letters) + 1) :].encode()
        assert decompress(compress(letters, dictionary), dictionary) == letters


def test_what_the_dictionary_has_takes_no_space() -> None:
    """As long as it is within the window of DEFLATE, the last 32 KiB."""
    assert len(compress(f"Mission\n{CONTEXT}\nTask", CONTEXT.encode())) < 300
    assert len(compress(CONTEXT)) > 1_000


def test_another_dictionary_is_noticed_or_gives_another_text() -> None:
    data = compress(f"Mission {CONTEXT}", CONTEXT.encode())
    try:
        text = decompress(data, CONTEXT.replace("Ghana", "Togo").encode())
    except (zlib.error, UnicodeDecodeError):
        return
    assert text != f"Mission {CONTEXT}"


def test_a_request_is_restored() -> None:
    content = f"Mission\n{CONTEXT}\nTask"
    message = compress(content, CONTEXT.encode())
    restored = restore_request({"tools": ["queryGraph"]}, message, CONTEXT)
    assert restored == {
        "tools": ["queryGraph"],
        "messages": [{"role": "user", "content": content}],
    }


def test_a_request_that_is_stored_with_its_messages_stays_as_it_is() -> None:
    request = {"messages": [{"role": "user", "content": "Hello"}], "tools": []}
    assert restore_request(request, None, "") == request
