"""All stores that the walk through failures visits, and the modules that write without it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.support.store_walk.graph import GRAPH
from tests.support.store_walk.operation import Part
from tests.support.store_walk.owners import OWNERS
from tests.support.store_walk.payment import PAYMENT
from tests.support.store_walk.services import SERVICES
from tests.support.store_walk.workflow import WORKFLOW

PARTS: Final[Sequence[Part[Any]]] = (WORKFLOW, PAYMENT, GRAPH, OWNERS, SERVICES)
NOT_WALKED: Final[Mapping[str, str]] = {
    "services.api.http.idempotency": "It writes in the transaction of its request.",
    "services.assistant.configure_agent": "It writes by operations of stores, in the transaction that ends its step.",
    "services.scheduler.pruning_sql": "Statements of passes, each of many transactions; what the last pass has deleted is"
    " counted at its end.",
    "shared.database.migrations.journal": "A function of the database.",
    "shared.database.migrations.versions.0031_step_reservations": "A migration, which is one transaction.",
    "shared.database.migrations.versions.0035_readings": "A migration, which is one transaction.",
    "shared.database.migrations.versions.0038_retractions_hold": "A migration, which is one transaction.",
    "shared.database.migrations.versions.0039_validity_boundaries": "A migration, which is one transaction.",
    "shared.database.transaction": "It executes what it is given.",
    "shared.graph.conclusions.readings": "Its verdicts are written with their conclusion, in the transaction of the tools.",
}
"""Why not, by module."""
