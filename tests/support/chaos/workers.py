"""Who works on the steps of an iteration."""

from typing import Final

from shared.store.words import StepKind

WORKS_ON: Final = {
    "observer": StepKind.OBSERVE,
    "researcher": StepKind.QUERY,
    "analyzer": StepKind.INSIGHT,
    "adviser": StepKind.ADVISE,
}
