"""The entry point of an actor's process in these tests: the actor itself, or a deliberately broken one."""

from cli.local.members import run_actor


def run(name: str, breakage: str | None) -> None:
    if breakage is not None:
        from tests.support.chaos.breakages import BREAKAGES

        BREAKAGES[breakage]()
    run_actor(name)
