"""Profiles: the installations a user has logged in to, each with its token, in a private file."""

import os
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.errors import BadInputError, CommandError


def write_private(path: Path, text: str) -> None:
    """Replaces the file atomically; other users can never read it."""
    partial = path.with_name(f".{path.name}.new")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    partial.replace(path)


DEFAULT: Final = "default"


class Profile(BaseModel):
    model_config = ConfigDict(frozen=True)

    url: str
    token: str


class Profiles(BaseModel):
    """All saved profiles, by name."""

    model_config = ConfigDict(frozen=True)

    profiles: dict[str, Profile] = {}

    @classmethod
    def read(cls) -> Self:
        """Loads the profiles. Raises CommandError if the file is invalid."""
        path = profiles_file()
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "its content is invalid"
            raise CommandError(
                f"{path} cannot be read ({reason}): fix or delete it, then run `vigil login` again"
            ) from None

    def named(self, name: str) -> Profile:
        """Raises BadInputError."""
        if name not in self.profiles:
            names = ", ".join(sorted(self.profiles))
            hint = f"the profiles are: {names}" if names else "create one with `vigil login`"
            raise BadInputError(f"there is no profile {name!r}; {hint}")
        return self.profiles[name]

    def at(self, url: str) -> Profile | None:
        """A profile of the installation at that URL."""
        return next((profile for profile in self.profiles.values() if profile.url == url), None)

    def with_profile(self, name: str, profile: Profile) -> "Profiles":
        return Profiles(profiles={**self.profiles, name: profile})

    def without(self, name: str) -> "Profiles":
        return Profiles(
            profiles={key: profile for key, profile in self.profiles.items() if key != name}
        )

    def write(self) -> None:
        """Saves the profiles. Raises CommandError if the file cannot be written."""
        path = profiles_file()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, self.model_dump_json(indent=2) + "\n")
        except OSError as error:
            raise CommandError(
                f"{path} cannot be written ({error.strerror}): set XDG_CONFIG_HOME to another directory"
            ) from error


def profiles_file() -> Path:
    """`vigil/profiles.json` in the XDG configuration home (`~/.config`)."""
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # The XDG specification says to ignore relative paths.
    return (home if home.is_absolute() else Path.home() / ".config") / "vigil" / "profiles.json"
