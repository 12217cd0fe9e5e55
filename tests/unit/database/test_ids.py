"""Ids that are derived from what they stand for."""

from itertools import pairwise
from random import Random
from uuid import RFC_4122, UUID, uuid4

from shared.database import ids
from tests.support.seeds import first_seed, repeatable

AGENT = UUID("6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f0")


def test_ids_of_iterations_never_change() -> None:
    """Two versions of Vigil, or two schedulers, must give an iteration the same id."""
    assert str(ids.iteration_id(AGENT, 1)) == "99b27418-d02b-8000-8000-06fdf993c967"
    assert str(ids.iteration_id(AGENT, 1_234_567)) == "99b27418-d02b-8001-8b5a-1efdf993c967"


def test_ids_of_an_agents_iterations_are_in_the_order_of_their_numbers() -> None:
    seed = first_seed()
    with repeatable(seed):
        random = Random(seed)
        large = random.sample(range(100, 1 << 31), 2_000)
        edges = [(1 << 20) - 1, 1 << 20, (1 << 31) - 1]
        numbers = sorted({*range(1, 100), *large, *edges})
        made = [ids.iteration_id(AGENT, number) for number in numbers]
        assert all(earlier < later for earlier, later in pairwise(made))
        assert {(each.version, each.variant) for each in made} == {(8, RFC_4122)}


def test_iterations_of_different_agents_have_different_ids() -> None:
    agents = [uuid4() for _ in range(500)]
    made = {ids.iteration_id(agent, number) for agent in agents for number in range(1, 51)}
    assert len(made) == 500 * 50
