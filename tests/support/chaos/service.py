"""The entry point of a service's process in these tests: the service itself, or a deliberately broken one."""

from cli.local.members import run_service
from tests.support.chaos import statement_kills


def run(name: str, breakage: str | None) -> None:
    if breakage is not None:
        from tests.support.chaos.breakages import BREAKAGES

        BREAKAGES[breakage]()
    statement_kills.install()
    run_service(name)
