"""What of a conversation is shown, and what is folded into its summary."""

from random import Random

from services.assistant import history
from shared.agents.conversations import Turn


def turns(*characters: int, first: int = 1) -> list[Turn]:
    return [Turn(number, "q" * size, "a" * size) for number, size in enumerate(characters, first)]


def test_the_newest_turns_are_shown_and_the_rest_is_counted() -> None:
    told = history.format_recent_turns(turns(400, 40, 40), 60)
    assert told.startswith("(1 earlier turns are left out")
    assert told.count("Owner: ") == 2


def test_a_turn_without_an_answer_says_so() -> None:
    assert "(no answer was given)" in history.format_recent_turns([Turn(1, "Hello?", None)], 100)


def test_a_long_answer_is_cut_and_says_so() -> None:
    told = history.format_turn(Turn(1, "q", "x" * 10_000))
    assert len(told) < 7_000
    assert "10000 characters in all" in told


def test_what_fits_is_not_folded() -> None:
    assert history.select_turns_to_summarize(turns(10, 10), 100) is None
    assert history.select_turns_to_summarize([], 100) is None


def test_the_oldest_are_folded_and_about_half_the_budget_stays() -> None:
    fold = history.select_turns_to_summarize(turns(*[50] * 8), 200)
    assert fold is not None
    assert [turn.number for turn in fold.turns] == list(range(1, fold.through + 1))
    left = turns(*[50] * (8 - fold.through), first=fold.through + 1)
    assert 0 < len("\n\n".join(history.format_turn(turn) for turn in left)) <= 400


def test_a_turn_larger_than_the_budget_is_folded_too() -> None:
    fold = history.select_turns_to_summarize(turns(2_000), 100)
    assert fold is not None
    assert fold.through == 1


def test_folding_comes_to_an_end_and_takes_each_turn_once(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        waiting = turns(*(random.randrange(1, 900) for _ in range(random.randrange(12))))
        budget = random.randrange(10, 400)
        taken: list[int] = []
        while (fold := history.select_turns_to_summarize(waiting, budget)) is not None:
            assert list(fold.turns) == waiting[: len(fold.turns)]
            taken += [turn.number for turn in fold.turns]
            waiting = waiting[len(fold.turns) :]
        assert taken == list(range(1, len(taken) + 1))
