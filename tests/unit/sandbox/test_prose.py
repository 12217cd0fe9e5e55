"""What of a page is a sentence, and which names it has."""

import pytest

from sandbox.text.names import NameFinder
from sandbox.text.sentences import is_prose


@pytest.mark.parametrize(
    "text",
    [
        "Volta sells electricity.",
        "A shared library is identified by the attribute stored in its dynamic section.",
        "Revenue fell 12% to $1.1 billion in 2025.",
        "Oriol Maritime cuts a service",
        "“We will grow,” said the chairman of the firm.",
    ],
)
def test_sentences_are_prose(text: str) -> None:
    assert is_prose(text)


@pytest.mark.parametrize(
    "text",
    [
        "Next Previous Up",
        "Backup Manifest Format",
        "Table of Contents",
        "1.4. What is the installer?",
        "import os; print(os.name)",
        "SELECT name FROM users WHERE id = 1;",
        "$ apt-get install vigil",
        "--verbose prints more lines.",
        "See :ref:`the manual <manual>` for more.",
        "Menu → Team → Preferences is where it is.",
        "if (a == b) { return c; }",
        "and the rest of a sentence that began before.",
    ],
)
def test_headings_menus_and_code_are_not(text: str) -> None:
    assert not is_prose(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Updated Chapter 12 of the manual is out.", []),
        ("It follows from Section 4.1 of the guide.", []),
        ("For images see Kapitel 4.1 of the guide.", []),
        ("THE DESCRIPTION of a tool has a description.", []),
        ("It comes WITHOUT ANY WARRANTY of fitness.", []),
        ("It was sent to the United Nations by Harborlight.", ["United Nations", "Harborlight"]),
    ],
)
def test_references_and_shouted_words_are_no_names(text: str, names: list[str]) -> None:
    assert [name.text for name in NameFinder([text]).find(text)] == names
