"""What of a run is not as it should be, in words."""

from collections.abc import Iterator

from bench.soak import judging
from bench.soak.sample import Run


def faults(run: Run) -> list[str]:
    return [*_of_work(run), *_of_lines(run), *_of_samples(run)]


def _of_samples(run: Run) -> Iterator[str]:
    if run.failures:
        yield f"{len(run.failures)} samples could not be taken; the first: {run.failures[0]}"


def _of_work(run: Run) -> Iterator[str]:
    seen = run.at_rest or (run.samples[-1] if run.samples else None)
    if seen is None:
        yield "no sample was taken"
        return
    work = seen.work
    if not work.completed:
        yield "no iteration was completed"
    if work.failed or work.failed_steps or work.with_errors:
        yield (
            f"{work.failed} iterations failed, {work.with_errors} had errors, {work.failed_steps} steps failed"
        )
    if work.dead_letters:
        yield f"{work.dead_letters} dead letters are kept"
    if run.at_rest is None:
        yield "whether anything waits at the end was not seen"
    elif not seen.is_at_rest:
        yield (
            f"at the end {seen.lag} messages wait or are in flight, {work.running} iterations run, {work.open_steps} steps"
            f" are open, {work.untold} ends were not heard"
        )


def _of_lines(run: Run) -> Iterator[str]:
    if not judging.is_long_enough(run):
        yield "it ran too short a time after the warm-up to tell whether anything grows"
        return
    samples = run.steady
    for what, trends in (
        ("memory of", judging.memory(samples)),
        ("open files of", judging.files(samples)),
        ("table", judging.flat_tables(samples)),
    ):
        yield from (f"{what} {each.what} grows" for each in trends if not each.is_flat)
    for what, kept in (
        ("table", judging.kept_tables(samples)),
        ("stream", judging.streams(samples)),
    ):
        yield from (
            f"{what} {each.what} grows by more with each iteration"
            for each in kept
            if not each.is_flat
        )
