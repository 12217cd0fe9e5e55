"""What this installation is."""

from fastapi import APIRouter

from shared.schemas.base import AboutView
from shared.version import vigil_version

router = APIRouter(tags=["about"])


@router.get("/about")
async def about() -> AboutView:
    """All that is told to whoever asks."""
    return AboutView(version=vigil_version())
