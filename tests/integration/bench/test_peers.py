"""A peer's program that is killed continues its iteration from what it has saved."""

import sys
from pathlib import Path

from bench.loop.environment import Environment
from bench.peers.contenders import Peer
from bench.peers.kills import kill_peer
from bench.support import running_engines
from shared.runtime.settings import Settings

KILLED_AFTER = 7


async def test_the_loop_by_hand_makes_no_answered_call_again(tmp_path: Path) -> None:
    with running_engines(tmp_path) as (postgres, nats):
        place = Environment(Settings(), tmp_path, postgres, nats)
        peer = Peer("by hand", place, "", Path(sys.executable), "by_hand")
        kill = await kill_peer(peer, KILLED_AFTER, tmp_path)
    assert kill.answered >= KILLED_AFTER
    assert kill.answered_again == 0
    assert kill.in_flight_again == kill.in_flight
