"""Which Vigil this is."""

from importlib.metadata import PackageNotFoundError, version


def vigil_version() -> str:
    try:
        return version("vigil")
    except PackageNotFoundError:
        return "of its source, not installed"
