"""ETags of what has a version: who changes it can say which version the change is meant for."""

from services.api.problems import PreconditionFailedError


def etag(version: int) -> str:
    return f'"{version}"'


def refuse_changed(if_match: str | None, version: int) -> None:
    """Raises PreconditionFailedError unless `if_match`, where it was sent, names `version`."""
    if if_match is None:
        return
    named = [each.strip() for each in if_match.split(",")]
    if "*" not in named and etag(version) not in named:
        raise PreconditionFailedError(
            f"It has changed since: If-Match says {if_match}, and the version is {etag(version)} now. "
            "Read it again, and make your change to that."
        )
