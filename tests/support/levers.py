"""The sandbox's levers, as tests pull them."""

from decimal import Decimal
from typing import Any

import httpx


class Sandbox:
    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, *answers: dict[str, Any]) -> None:
        """Puts these answers into the model's mouth, each for the next request that matches it."""
        self._post("script", list(answers))

    def faults(self, *rules: dict[str, Any]) -> None:
        self._post("faults", list(rules))

    def heed_keys(self) -> None:
        """A request whose Idempotency-Key came before is given the answer of then, and is not billed."""
        self._post("keys", {"heeded": True})

    def matched(self, phase: str) -> int:
        """Calls that the faults ordered for this phase have matched."""
        rules = httpx.get(f"{self.url}/control").raise_for_status().json()["faults"]
        return sum(rule["matched"] for rule in rules if rule["phase"] == phase)

    def reset(self) -> None:
        """The meter at zero, no script and no faults."""
        httpx.post(f"{self.url}/control/reset").raise_for_status()

    def billed(self) -> dict[str, int]:
        """Calls answered with 200 since the test began, by kind."""
        counts: dict[str, int] = self._meter()["billed"]
        return counts

    def billed_usd(self) -> Decimal:
        """What all of it was charged at."""
        return Decimal(self._meter()["usd"])

    def repeated(self, *kinds: str) -> int:
        """Calls, of these kinds or of all, that were billed for the very same request as an earlier one."""
        counts: dict[str, int] = self._meter()["repeated"]
        return sum(count for kind, count in counts.items() if not kinds or kind in kinds)

    def replayed(self) -> int:
        """Requests that got an earlier answer because of their key."""
        count: int = self._meter()["replayed"]
        return count

    def _meter(self) -> Any:
        return httpx.get(f"{self.url}/control/meter").raise_for_status().json()

    def _post(self, lever: str, body: Any) -> None:
        httpx.post(f"{self.url}/control/{lever}", json=body).raise_for_status()
