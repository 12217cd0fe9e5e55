"""What commands print."""

import io
from collections.abc import Callable
from typing import Any

from cli.render.console import THEME, SafeConsole


def printed(show: Callable[..., object], *values: Any, width: int = 200, **options: Any) -> str:
    """What `show` prints of the values to a console of this width."""
    file = io.StringIO()
    show(SafeConsole(file=file, theme=THEME, width=width), *values, **options)
    return file.getvalue()
