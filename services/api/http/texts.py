"""Texts that users write in requests: how they are trimmed, checked and declared."""

from typing import Any

from pydantic import AfterValidator, Field

from shared.database.text import refuse_nul


def trimmed(max_chars: int, *, is_line: bool = False) -> AfterValidator:
    """A validator that trims a text, with `is_line` to one line, and refuses one that is empty or too long."""

    def trim(text: str) -> str:
        text = " ".join(text.split()) if is_line else text.strip()
        if not 1 <= len(text) <= max_chars:
            raise ValueError(
                f"enter 1 to {max_chars:,} characters; this text has {len(text):,} characters"
            )
        return refuse_nul(text)

    return AfterValidator(trim)


def length_in_schema(min_length: int, max_length: int) -> Any:
    """Declares a length in characters in the OpenAPI document only.

    A validator, which trims first, checks it and words the error.
    """
    return Field(json_schema_extra={"minLength": min_length, "maxLength": max_length})
