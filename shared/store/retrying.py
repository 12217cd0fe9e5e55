"""Whether a dead letter may be retried, pure."""

from dataclasses import dataclass
from typing import Final

from shared.events.topology import CONSUMERS
from shared.store.words import IterationStatus, StepKind

ANSWERED: Final = frozenset({"empty_answer", "invalid_answer"})
"""Codes of steps that failed on what the model answered, which the ledger keeps and a retry would be given again."""


@dataclass(frozen=True)
class FailedStep:
    """What a letter is about, where it is about a step of an iteration."""

    kind: StepKind
    iteration_number: int
    iteration_status: IterationStatus
    agent_name: str


def refusal(actor: str, subject: str, code: str, step: FailedStep | None) -> str | None:
    """Why a letter cannot be retried now, and what to do instead; None where it can."""
    if step is None:
        # Else whoever can keep a letter could have others told what they hear from nobody else.
        heard = actor in CONSUMERS and subject in CONSUMERS[actor].subjects
        return None if heard else f"no {actor} of this version hears {subject}: discard it"
    iteration = f"iteration {step.iteration_number} of {step.agent_name}"
    run_again = f"run the agent again with `vigil run {_quoted(step.agent_name)}`"
    if step.kind is StepKind.OBSERVE:
        return f"{iteration} has ended without a plan, and one made now would come too late: {run_again}"
    if step.iteration_status is IterationStatus.RUNNING:
        return f"{iteration} still runs, and goes on without this step: retry it when the iteration has ended"
    if code in ANSWERED:
        return f"the model's answer is kept with the step, and would be read again: {run_again}"
    return None


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
