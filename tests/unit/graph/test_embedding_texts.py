"""The text of a node from which its embedding is made."""

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.graph.retrieval.embedding_backlog import MAX_TEXT_CHARS, embedding_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_the_text_is_name_type_summary_and_short_properties() -> None:
    properties = {
        "summary": "Makes trucks.",
        "plants": ["Lyon", "Turin"],
        "founded_in": 1999,
        "listed": True,
        "history": "long " * 100,
        "deep": {"er": 1},
    }
    assert embedding_text("Maker", "Volta", properties) == (
        "Volta; Maker; Makes trucks.; founded in: 1999; listed: yes; plants: Lyon, Turin"
    )


def test_the_order_of_properties_does_not_matter() -> None:
    assert embedding_text("T", "n", {"a": 1, "b": 2}) == embedding_text("T", "n", {"b": 2, "a": 1})


@settings(max_examples=30)
@given(st.text(min_size=1), st.dictionaries(st.text(), JSON))
def test_the_text_is_always_one_short_line(name: str, properties: dict[str, object]) -> None:
    text = embedding_text("Thing", name, properties)
    assert 0 < len(text) <= MAX_TEXT_CHARS
    assert text == " ".join(text.split())
