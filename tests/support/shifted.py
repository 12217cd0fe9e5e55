"""`python -m tests.support.shifted SECONDS SERVICE`: a service on a machine whose clock is wrong by so much.

Before the service is imported: what it is and what it imports finds no other clock.
"""

import datetime as datetime_module
import runpy
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any


def shift(seconds: float) -> None:
    """Puts this process's wall clock forward, or back; what counts the time that passes is left as it is."""
    true_time = time.time
    off = timedelta(seconds=seconds)

    class Anywhen(type):
        # What C code makes is a true datetime.
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime)

    class Shifted(datetime, metaclass=Anywhen):
        __slots__ = ()

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + off

        @classmethod
        def utcnow(cls) -> Any:
            return datetime.now(UTC).replace(tzinfo=None) + off

    time.time = lambda: true_time() + seconds
    datetime_module.datetime = Shifted  # type: ignore[misc]  # that is the point


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    runpy.run_module(f"services.{sys.argv[2]}", run_name="__main__")
