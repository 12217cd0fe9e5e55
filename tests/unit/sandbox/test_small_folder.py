"""Two iterations over a folder of a few comparable documents give an insight and an analysis."""

from pathlib import Path

import pytest

from sandbox.corpus import load
from sandbox.search.index import build_index
from tests.support.sandbox.simulated_agent import SimulatedAgent

FILES = {
    "harbour.md": "# Harbour Line orders ships\n\nHarbour Line of Rotterdam grows.\nFleet size 2026: 214 ships\n",
    "oriol.txt": "Oriol Maritime cuts a service\n\nThe Barcelona company sails less.\n\nFleet size 2026: 96 ships\n",
    "nordhav.json": '{"title": "Nordhav Shipping: results", "text": "Nordhav Shipping won.\\nFleet size 2026: 118 ships"}',
    "clyde.csv": 'title,text\nClyde Tankers,"Clyde Tankers owns tankers. Fleet size 2026: 30 ships"\n',
}


@pytest.mark.parametrize(
    "mission", ["Watch shipping companies", "Watch the fleet of Harbour Line and Oriol Maritime"]
)
def test_a_folder_of_comparable_documents_is_compared(tmp_path: Path, mission: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    simulated_agent = SimulatedAgent(mission, build_index(load(tmp_path)))
    plans = [simulated_agent.iterate() for _ in range(2)]
    assert any(plan["insights"] for plan in plans)
    assert any(
        analysis["name"].startswith("Fleet size") for analysis in simulated_agent.analyses.values()
    )
    assert len(simulated_agent.objectives) == len(set(simulated_agent.objectives))
