"""A client for the sandbox's controls."""

from decimal import Decimal
from typing import Any, Final

import httpx

SANDBOX_HANDLER: Final = "tests.support.sandbox.controls:ControlledHandler"
"""The `--handler` with which the sandbox serves its controls."""


class Sandbox:
    def __init__(self, url: str) -> None:
        self.url = url
        # Without TLS there are no certificates to load, which takes 25 ms.
        self._http = httpx.Client(base_url=url, verify=False)

    def script(self, *answers: dict[str, Any]) -> None:
        """Script model responses, each for the next request that matches it."""
        self._post("script", list(answers))

    def faults(self, *rules: dict[str, Any]) -> None:
        self._post("faults", list(rules))

    def heed_keys(self) -> None:
        """Replay the earlier response to a repeated Idempotency-Key, without billing it."""
        self._post("keys", {"heeded": True})

    def matched(self, phase: str) -> int:
        """Number of calls that the fault rules of this phase have matched."""
        rules = self._http.get("/control").raise_for_status().json()["faults"]
        return sum(rule["matched"] for rule in rules if rule["phase"] == phase)

    def reset(self) -> None:
        """Clear the meter, the script and the faults."""
        self._http.post("/control/reset").raise_for_status()

    def billed(self) -> dict[str, int]:
        """Calls answered with 200 since the test began, by kind."""
        counts: dict[str, int] = self._meter()["billed"]
        return counts

    def billed_usd(self) -> Decimal:
        """The total price of the billed calls."""
        return Decimal(self._meter()["usd"])

    def repeated(self, *kinds: str) -> int:
        """Number of calls, of these kinds or of all, billed for the same request as an earlier one."""
        counts: dict[str, int] = self._meter()["repeated"]
        return sum(count for kind, count in counts.items() if not kinds or kind in kinds)

    def replayed(self) -> int:
        """Number of requests that got an earlier response because of their key."""
        count: int = self._meter()["replayed"]
        return count

    def _meter(self) -> Any:
        return self._http.get("/control/meter").raise_for_status().json()

    def _post(self, control: str, body: Any) -> None:
        self._http.post(f"/control/{control}", json=body).raise_for_status()
