"""JSON Schemas as table rows."""

from services.api.resources.graph.elements import PropertyRow, property_rows


def test_each_property_is_a_row() -> None:
    rows = property_rows(
        {
            "properties": {
                "tonnes": {"type": "integer", "minimum": 0, "description": "Bought in a year"},
                "state": {"enum": ["new", "old"]},
                "names": {"type": "array", "items": {"type": "string"}, "minItems": 1},
                "share": {"type": ["number", "null"], "maximum": 1},
                "any": True,
            },
            "required": ["tonnes"],
        }
    )
    assert rows == [
        PropertyRow("tonnes", "integer", True, "Bought in a year", "at least 0"),
        PropertyRow("state", "one of new, old", False, "", ""),
        PropertyRow("names", "list of string", False, "", "at least 1 items"),
        PropertyRow("share", "number or null", False, "", "at most 1"),
        PropertyRow("any", "anything", False, "", ""),
    ]


def test_a_schema_without_plain_properties_has_no_rows() -> None:
    assert (
        property_rows({})
        == property_rows({"anyOf": []})
        == property_rows({"properties": ["no"]})
        == []
    )
