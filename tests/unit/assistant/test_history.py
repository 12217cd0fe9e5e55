"""Which turns of a conversation are shown, and which are summarized."""

from random import Random

from services.assistant import history
from shared.agents.conversations import Turn


def turns(*characters: int, first: int = 1) -> list[Turn]:
    return [Turn(number, "q" * size, "a" * size) for number, size in enumerate(characters, first)]


def test_the_newest_turns_are_shown_and_the_rest_is_counted() -> None:
    text = history.format_recent_turns(turns(400, 40, 40), 240)
    assert text.startswith("(1 earlier turns are left out")
    assert text.count("Owner: ") == 2


def test_a_turn_without_an_answer_is_marked() -> None:
    assert "(no answer was given)" in history.format_recent_turns([Turn(1, "Hello?", None)], 400)


def test_a_long_answer_is_cut_and_marked() -> None:
    text = history.format_turn(Turn(1, "q", "x" * 10_000))
    assert len(text) < 7_000
    assert "10000 characters in all" in text


def test_turns_within_the_budget_are_not_summarized() -> None:
    assert history.select_turns_to_summarize(turns(10, 10), 400) is None
    assert history.select_turns_to_summarize([], 100) is None


def test_the_oldest_turns_are_summarized_and_about_half_the_budget_remains() -> None:
    selection = history.select_turns_to_summarize(turns(*[50] * 8), 800)
    assert selection is not None
    assert [turn.number for turn in selection.turns] == list(range(1, selection.through + 1))
    rest = turns(*[50] * (8 - selection.through), first=selection.through + 1)
    assert 0 < len("\n\n".join(history.format_turn(turn) for turn in rest)) <= 400


def test_a_turn_larger_than_the_budget_is_summarized_too() -> None:
    selection = history.select_turns_to_summarize(turns(2_000), 400)
    assert selection is not None
    assert selection.through == 1


def test_summarizing_terminates_and_takes_each_turn_once(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        remaining = turns(*(random.randrange(1, 900) for _ in range(random.randrange(12))))
        budget = random.randrange(40, 1_600)
        numbers: list[int] = []
        while (selection := history.select_turns_to_summarize(remaining, budget)) is not None:
            assert list(selection.turns) == remaining[: len(selection.turns)]
            numbers += [turn.number for turn in selection.turns]
            remaining = remaining[len(selection.turns) :]
        assert numbers == list(range(1, len(numbers) + 1))
