"""Profiles: the installations that a user has logged in to, with the token of each, in private files."""

import os
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.errors import BadInputError, CommandError


def write_private(path: Path, text: str) -> None:
    """At once or not at all, and at no moment readable by others."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)


DEFAULT: Final = "default"


class Profile(BaseModel):
    model_config = ConfigDict(frozen=True)

    url: str
    token: str


class Profiles(BaseModel):
    """As they are kept, by name."""

    model_config = ConfigDict(frozen=True)

    profiles: dict[str, Profile] = {}

    @classmethod
    def read(cls) -> Self:
        """Raises CommandError where the file cannot be understood."""
        path = profiles_file()
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValidationError) as error:
            told = error.strerror if isinstance(error, OSError) else "it was changed by hand"
            raise CommandError(
                f"{path} cannot be read ({told}): mend or delete it, then `vigil login` again"
            ) from None

    def named(self, name: str) -> Profile:
        """Raises BadInputError."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none yet; `vigil login` makes one"
            raise BadInputError(f"there is no profile {name!r}; there are: {known}")
        return self.profiles[name]

    def at(self, url: str) -> Profile | None:
        """One of the installation at that URL."""
        return next((each for each in self.profiles.values() if each.url == url), None)

    def with_profile(self, name: str, profile: Profile) -> "Profiles":
        return Profiles(profiles={**self.profiles, name: profile})

    def without(self, name: str) -> "Profiles":
        return Profiles(
            profiles={each: kept for each, kept in self.profiles.items() if each != name}
        )

    def write(self) -> None:
        """Raises CommandError where nothing can be written there."""
        path = profiles_file()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, self.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise CommandError(
                f"{path} cannot be written ({error.strerror}): name another place by XDG_CONFIG_HOME"
            ) from error


def profiles_file() -> Path:
    """`vigil/profiles.json` in the XDG configuration home (`~/.config`)."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # The specification has relative values ignored.
    return (home if home.is_absolute() else Path.home() / ".config") / "vigil" / "profiles.json"
