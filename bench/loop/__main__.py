import asyncio
import sys
import tempfile
from pathlib import Path

from bench.engines import engines, provision
from bench.loop.measuring import Place, measure
from shared.runtime.settings import Settings


def main():
    with (
        tempfile.TemporaryDirectory() as home,
        engines(Path(home), durable=True) as (postgres, nats),
    ):
        settings = Settings(database_url=postgres.url("vigil"), nats_url=nats.url)
        provision(settings)
        place = Place(settings, Path(home), "vigil", postgres, nats)
        f = asyncio.run(
            measure(place, iterations=int(sys.argv[1]), load_seconds=float(sys.argv[2]))
        )
        for n, s in (("loop", f.loop), ("floor", f.floor)):
            print(
                n,
                f"idle p50 {s.idle_p50 * 1e3:.1f} p95 {s.idle_p95 * 1e3:.1f} per s {s.per_second:.1f}",
            )
            for w, u in (("idle", s.idle), ("load", s.load)):
                print(
                    "  ",
                    w,
                    f"commits {u.commits:.1f} tx {u.transactions:.1f} wal {u.wal_bytes / 1e3:.1f}kB msgs {u.messages:.1f} cpu {u.all_seconds * 1e3:.1f} ms",
                    {k: round(v * 1e3, 1) for k, v in u.seconds.items()},
                )
        print(f"hop p50 {f.hop_p50 * 1e3:.2f} p95 {f.hop_p95 * 1e3:.2f}")
        print(
            {k: round(v / 2**20) for k, v in f.rest_bytes.items()},
            {k: round(v / 2**20) for k, v in f.load_bytes.items()},
        )
        for m in f.makespans:
            print(m, f"{m.efficiency:.1%}")
        for c in f.complaints[:20]:
            print(c)


main()
