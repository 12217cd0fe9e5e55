"""How long a text may be, told in the api's document where a validator of its own decides it."""

from typing import Any

from pydantic import Field


def length_told(shortest: int, longest: int) -> Any:
    """For the document alone, in characters: what is refused is said in words by the validator, which trims first."""
    return Field(json_schema_extra={"minLength": shortest, "maxLength": longest})
