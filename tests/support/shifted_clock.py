"""`python -m tests.support.shifted_clock SECONDS SERVICE`: run a service with a clock that is wrong by so much.

The clock is replaced before the service and its imports are imported.
"""

import datetime as datetime_module
import runpy
import sys
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any


def shift(seconds: float) -> None:
    """Shift this process's wall clock; monotonic clocks are unchanged."""
    true_time = time.time
    offset = timedelta(seconds=seconds)

    class Anywhen(type):
        # C code creates real datetimes.
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetime)

    class Shifted(datetime, metaclass=Anywhen):
        __slots__ = ()

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + offset

        @classmethod
        def utcnow(cls) -> Any:
            return datetime.now(UTC).replace(tzinfo=None) + offset

    time.time = lambda: true_time() + seconds
    datetime_module.datetime = Shifted  # type: ignore[misc]  # deliberately


if __name__ == "__main__":
    shift(float(sys.argv[1]))
    runpy.run_module(f"services.{sys.argv[2]}", run_name="__main__")
