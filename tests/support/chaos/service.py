"""The entry point of a service's process in these tests: the service itself, or a deliberately broken one."""

from cli.local.members import run_service


def run(name: str, breakage: str | None) -> None:
    if breakage is not None:
        from tests.support.chaos.breakages import BREAKAGES

        BREAKAGES[breakage]()
    run_service(name)
