"""Looking for what is under way: patient with failed looks, and nothing is ordered for them."""

from collections.abc import Iterator

import pytest

from shared.errors import PermanentError, TransientError
from shared.store.in_flight import MAX_FAILED_LOOKS, CallLostError, InFlight, looked_for


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between looks, which take no time here."""
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("shared.store.in_flight.asyncio.sleep", note)
    return waits


class Service:
    """Gives these in turn: raises errors, returns the rest."""

    def __init__(self, *outcomes: object) -> None:
        self._outcomes: Iterator[object] = iter(outcomes)
        self.events: list[str] = []

    async def look(self) -> object:
        outcome = next(self._outcomes)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def order(self, key: str) -> str:
        self.events.append(f"order {key}")
        return "new"

    async def keep(self, reference: str) -> None:
        self.events.append(f"keep {reference}")

    async def collect(self, reference: str) -> object:
        self.events.append(f"collect {reference}")
        return await self.look()

    async def ask(self, reference: str | None) -> object:
        flight = InFlight("key", reference, self.keep)
        return await flight.found_or_ordered(self.order, self.collect)


async def test_looks_become_rarer(waited: list[float]) -> None:
    assert await looked_for(Service(*[None] * 6, "found").look) == "found"
    assert waited == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0]


async def test_failed_looks_are_borne_and_the_wait_that_is_asked_for_is_kept(
    waited: list[float],
) -> None:
    trouble = TransientError("busy", retry_in_seconds=30)
    assert await looked_for(Service(trouble, None, "found").look) == "found"
    assert waited == [0.5, 30, 5.0]


async def test_only_too_many_failed_looks_in_a_row_are_an_error() -> None:
    trouble = [TransientError("away")] * MAX_FAILED_LOOKS
    assert await looked_for(Service(*trouble, None, *trouble, "found").look) == "found"
    with pytest.raises(TransientError, match="away"):
        await looked_for(Service(*trouble, TransientError("away"), "never seen").look)


@pytest.mark.parametrize("error", [CallLostError("gone"), PermanentError("llm_key", "wrong key")])
async def test_what_no_other_look_can_mend_is_raised_at_once(error: Exception) -> None:
    with pytest.raises(type(error)):
        await looked_for(Service(error, "never seen").look)


async def test_a_reference_is_kept_before_anything_is_collected_by_it() -> None:
    service = Service("answer")
    assert await service.ask(None) == "answer"
    assert service.events == ["order key", "keep new", "collect new"]


async def test_what_has_a_reference_is_collected_and_not_ordered() -> None:
    service = Service("answer")
    assert await service.ask("old") == "answer"
    assert service.events == ["collect old"]


async def test_what_is_lost_is_ordered_again_under_another_key() -> None:
    service = Service(CallLostError("gone"), "answer")
    assert await service.ask("old") == "answer"
    assert service.events == ["collect old", "order key-after-old", "keep new", "collect new"]


async def test_what_is_lost_again_is_not_ordered_for_ever() -> None:
    service = Service(CallLostError("gone"), CallLostError("gone again"))
    with pytest.raises(CallLostError, match="again"):
        await service.ask("old")
