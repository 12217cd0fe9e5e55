"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version


def vigil_version() -> str:
    try:
        return version("vigil")
    except PackageNotFoundError:
        return "of its source, not installed"
