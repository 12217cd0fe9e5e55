"""Invented migrations, for tests of how migrations are applied."""

import shutil
from pathlib import Path
from textwrap import dedent, indent
from typing import Final

from alembic.script import ScriptDirectory

from shared.database import migrate

REVISION: Final = "made_up"

_FILE: Final = """
import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers
from shared.database.tables import Base

revision = "{revision}"
down_revision = "{before}"


def upgrade() -> None:
{body}
"""


def history_with(directory: Path, *bodies: str) -> Path:
    """Copy the migrations, and add one for each of `bodies`, the body of its `upgrade`."""
    scripts = directory / "migrations"
    shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    before = ScriptDirectory(str(scripts)).get_current_head()
    for number, body in enumerate(bodies):
        revision = f"{REVISION}_{number}"
        source = _FILE.format(
            revision=revision, before=before, body=indent(dedent(body).strip(), "    ")
        )
        (scripts / "versions" / f"{revision}.py").write_text(source)
        before = revision
    return scripts
