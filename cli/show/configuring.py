"""How an agent is made, its prompts and its types, in a terminal."""

import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.show.words import ago, counted
from cli.show.work import LONG_CALL_SECONDS, age_seconds, growth, waiting
from shared.store.reading.configuring_shapes import (
    ConfigurationDetails,
    PromptView,
    TypesView,
)
from shared.store.reading.graph_shapes import EdgeTypeDetails, TypeDetails
from shared.store.reading.shapes import Json


def configuring(name: str, found: ConfigurationDetails) -> str:
    """What is being done, in a line."""
    if found.error and found.waiting_since is not None:
        return f"configuring {name}: {waiting(found.error, found.waiting_since, found.retry_at)}"
    if found.error:
        retry = "" if found.retry_at is None else f", next try {ago(found.retry_at)}"
        return f"{name} is in trouble{retry if 'in ' in retry else ''}: {found.error}"
    if found.interaction is None:
        return f"{name} waits to be configured"
    answered = sum(event.type == "answer" for event in found.interaction.events)
    told = f"configuring {name}: {'its types' if answered else 'its name and prompts'}"
    calls = found.running_calls
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return f"{told}: {growth(calls[0])}"
    return told


def show_prompts(console: Console, prompts: Sequence[PromptView]) -> None:
    for each in prompts:
        _show_prompt(console, each)


def show_history(console: Console, versions: Sequence[PromptView]) -> None:
    if not versions:
        console.print("The prompts were never changed.")
    for each in versions:
        _show_prompt(console, each)


def _show_prompt(console: Console, prompt: PromptView) -> None:
    told = "" if prompt.created_at is None else f", {ago(prompt.created_at)} by {prompt.made_by}"
    console.print(f"[title]{prompt.phase}[/] [quiet]version {prompt.version}{told}[/]\n")
    console.print(Padding(escape(prompt.prompt), (0, 0, 1, 2), expand=False))


def show_types(console: Console, types: TypesView) -> None:
    console.print(f"[title]{counted(len(types.node_types), 'node type')}[/]")
    for node in types.node_types:
        _show_type(console, f"[agent]{escape(node.name)}[/]", node)
    console.print(f"\n[title]{counted(len(types.edge_types), 'edge type')}[/]")
    for edge in types.edge_types:
        _show_type(console, f"[agent]{escape(edge.name)}[/]  {_ends(edge)}", edge)


def _show_type(console: Console, head: str, of: TypeDetails) -> None:
    maker = "" if of.created_by == "configuration" else f" [quiet](by {escape(of.created_by)})[/]"
    console.print(f"\n  {head}{maker}", soft_wrap=True)
    console.print(f"  {escape(of.description)}", soft_wrap=True)
    properties = of.properties_schema.get("properties", {})
    if properties:
        required = of.properties_schema.get("required", [])
        console.print(Padding(_properties(properties, required), (0, 0, 0, 4), expand=False))
    if of.example_properties:
        example = json.dumps(of.example_properties, ensure_ascii=False)
        console.print(f"    [quiet]for example[/] {escape(example)}", soft_wrap=True)


def _properties(properties: Json, required: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="quiet")
    table.add_column(overflow="fold", style="quiet")
    for name, schema in properties.items():
        mark = "*" if name in required else ""
        table.add_row(
            f"{escape(name)}{mark}", escape(_kind(schema)), escape(schema.get("description", ""))
        )
    return table


def _kind(schema: Json) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    return str(schema.get("format") or schema.get("type", ""))


def _ends(edge: EdgeTypeDetails) -> str:
    sources, targets = (
        " or ".join(names) or "any" for names in (edge.source_types, edge.target_types)
    )
    return f"[quiet]{escape(sources)} → {escape(targets)}[/]"
