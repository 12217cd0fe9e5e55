"""What every shape that people get to see is made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict

Json = dict[str, Any]


class View(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)
