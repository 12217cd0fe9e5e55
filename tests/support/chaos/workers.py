"""The worker of each kind of step."""

from typing import Final

from shared.enums import StepKind

STEP_KIND_BY_WORKER: Final = {
    "observer": StepKind.OBSERVE,
    "researcher": StepKind.QUERY,
    "analyzer": StepKind.INSIGHT,
    "adviser": StepKind.ADVISE,
}
