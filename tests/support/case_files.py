"""Cases of parametrized tests as data."""

from pathlib import Path
from typing import Any

import pytest
import yaml


def read_cases(test_file: str) -> dict[str, list[Any]]:
    """The tables of the YAML file beside a test module, by name, with one case a line.

    If a table is a mapping, its keys are the IDs of the cases and each value is the list of a case's parameters.
    """
    content = Path(test_file).with_suffix(".yaml").read_text(encoding="utf-8")
    tables = yaml.load(content, yaml.CSafeLoader)
    return {
        name: [pytest.param(*values, id=key) for key, values in table.items()]
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
