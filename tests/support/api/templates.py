"""The templates of the web UI."""

from pathlib import Path

from services.api.web.rendering import RESOURCES, TEMPLATES


def template_paths() -> dict[str, Path]:
    """All templates by their names, in order."""
    shared = {path.name: path for path in TEMPLATES.glob("*.html")}
    own = {
        f"{folder.parent.name}/{path.relative_to(folder).as_posix()}": path
        for folder in RESOURCES.glob("*/templates")
        for path in folder.rglob("*.html")
    }
    return dict(sorted((shared | own).items()))
