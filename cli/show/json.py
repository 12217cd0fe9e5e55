"""JSON for programs: what the api said, unchanged."""

import json
from collections.abc import Sequence

from pydantic import BaseModel

from cli.show.harmless import harmless_json


def print_json(what: BaseModel | Sequence[BaseModel]) -> None:
    """One value, indented, on stdout."""
    plain = (
        what.model_dump(mode="json")
        if isinstance(what, BaseModel)
        else [each.model_dump(mode="json") for each in what]
    )
    print(harmless_json(json.dumps(plain, indent=2, ensure_ascii=False)))
