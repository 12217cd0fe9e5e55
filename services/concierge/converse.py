"""To be written on its own branch; until then every such step fails, and says so."""

from dataclasses import dataclass

from shared.errors import PermanentError
from shared.llm.phase import Model
from shared.runtime.work import Outcome
from shared.store.leases import Lease
from shared.store.tables import Step


@dataclass(frozen=True)
class Converse:
    model: Model

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        raise PermanentError("not_built", f"steps of kind {step.kind} are not built yet")
