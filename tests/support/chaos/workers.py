"""Who works on the steps of an iteration."""

from typing import Final

from shared.enums import StepKind

WORKS_ON: Final = {
    "observer": StepKind.OBSERVE,
    "researcher": StepKind.QUERY,
    "analyzer": StepKind.INSIGHT,
    "adviser": StepKind.ADVISE,
}
