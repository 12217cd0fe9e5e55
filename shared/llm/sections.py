"""Tagged sections of a message: data stays data."""


def section(tag: str, text: str) -> str:
    """`text` between `<tag>` lines; what would close the tag from inside is defused."""
    defused = text.replace(f"</{tag}", f"<\\/{tag}")
    return f"<{tag}>\n{defused}\n</{tag}>"
