"""What an actor's process runs in these tests: the actor itself, or one that was broken on purpose."""

from cli.local.members import run_actor


def run(name: str, breakage: str | None) -> None:
    if breakage is not None:
        from tests.support.chaos.breakages import BREAKAGES

        BREAKAGES[breakage]()
    run_actor(name)
