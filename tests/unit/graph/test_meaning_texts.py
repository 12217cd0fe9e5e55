"""What of a node its vector is made of."""

from hypothesis import given
from hypothesis import strategies as st

from shared.graph.retrieval.embedding_backlog import MOST_CHARACTERS, text_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_name_and_type_then_summary_then_what_is_short() -> None:
    properties = {
        "summary": "Makes trucks.",
        "plants": ["Lyon", "Turin"],
        "founded_in": 1999,
        "listed": True,
        "history": "long " * 100,
        "deep": {"er": 1},
    }
    assert text_of("Maker", "Volta", properties) == (
        "Volta; Maker; Makes trucks.; founded in: 1999; listed: yes; plants: Lyon, Turin"
    )


def test_the_order_of_properties_does_not_matter() -> None:
    assert text_of("T", "n", {"a": 1, "b": 2}) == text_of("T", "n", {"b": 2, "a": 1})


@given(st.text(min_size=1), st.dictionaries(st.text(), JSON))
def test_whatever_is_known_of_it_the_text_is_one_short_line(
    name: str, properties: dict[str, object]
) -> None:
    told = text_of("Thing", name, properties)
    assert 0 < len(told) <= MOST_CHARACTERS
    assert told == " ".join(told.split())
