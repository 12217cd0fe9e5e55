"""`python -m tests.support.attacks.hanging_up PORT TOKEN DISCONNECTS HALF_OPEN SECONDS`: clients that waste connections.

DISCONNECTS connections are aborted within SECONDS, while HALF_OPEN others are held half-open and reopened when the
server closes them. Prints the number of each status as JSON, and every server error without Retry-After.
"""

import asyncio
import json
import random
import socket
import struct
import sys
from collections import Counter
from typing import Final

LOOPBACK: Final = "127.0.0.1"
SOURCES: Final = (LOOPBACK, "127.0.0.2", "127.0.0.3", "127.0.0.4")
HALF_OPEN_PER_SECOND: Final = 100
"""How many are opened per second at the start."""
REOPEN_SECONDS: Final = 5.0
"""Wait before a half-open connection that the server closed is reopened."""
RESET: Final = struct.pack("ii", 1, 0)
HOST_HEADER: Final = "Host: 127.0.0.1\r\n"


class HangingUp:
    def __init__(self, port: int, token: str) -> None:
        self.statuses: Counter[str] = Counter()
        self.bad: list[str] = []
        self._port = port
        self._bearer = f"{HOST_HEADER}Authorization: Bearer {token}\r\n"

    async def disconnects(self, count: int, seconds: float) -> None:
        requests = {
            "answer": f"GET /api/v1/openapi.json HTTP/1.1\r\n{HOST_HEADER}\r\n",
            "head": f"GET /api/v1/agents HTTP/1.1\r\n{self._bearer}X-Half: ",
            "body": f"POST /api/v1/agents HTTP/1.1\r\n{self._bearer}Content-Type: application/json\r\n"
            'Content-Length: 1000\r\n\r\n{"mission": "',
            "events": f"GET /api/v1/events HTTP/1.1\r\n{self._bearer}\r\n",
        }
        rng, loop, running = random.Random(0), asyncio.get_running_loop(), set()
        start = loop.time()
        for number in range(count):
            await asyncio.sleep(start + number * seconds / count - loop.time())
            request = list(requests.values())[number % len(requests)]
            task = asyncio.create_task(self._disconnect(request, rng))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def half_open(self, number: int) -> None:
        """Run until cancelled."""
        source = SOURCES[number % len(SOURCES)]
        await asyncio.sleep(number / HALF_OPEN_PER_SECOND)
        while True:
            try:
                reader, writer = await self._connect(source)
                writer.write(b"GET /api/v1/agents HTTP/1.1\r\n"[: 1 + number % 29])
                self._count((await reader.read()).decode("latin-1"))
                writer.close()
            except OSError as error:
                self.statuses[type(error).__name__] += 1
            await asyncio.sleep(REOPEN_SECONDS)

    async def _disconnect(self, request: str, rng: random.Random) -> None:
        try:
            reader, writer = await self._connect(rng.choice(SOURCES))
            writer.write(request.encode())
            if rng.random() < 0.5:
                async with asyncio.timeout(0.2):
                    self._count((await reader.read(200)).decode("latin-1"))
        except TimeoutError:
            self.statuses["nothing"] += 1
        except OSError as error:
            self.statuses[type(error).__name__] += 1
            return
        if rng.random() < 0.5:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.close()

    async def _connect(self, source: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(LOOPBACK, self._port, local_addr=(source, 0))

    def _count(self, answer: str) -> None:
        status = answer[9:12]
        self.statuses[status or "closed"] += 1
        if status.startswith("5") and (status != "503" or "retry-after:" not in answer.lower()):
            self.bad.append(answer)


async def main(port: int, token: str, disconnects: int, half_open: int, seconds: float) -> None:
    hanging_up = HangingUp(port, token)
    connections = [asyncio.create_task(hanging_up.half_open(number)) for number in range(half_open)]
    await hanging_up.disconnects(disconnects, seconds)
    for task in connections:
        task.cancel()
    await asyncio.gather(*connections, return_exceptions=True)
    print(json.dumps({"statuses": hanging_up.statuses, "bad": hanging_up.bad}))


if __name__ == "__main__":
    _, the_port, the_token, *counts = sys.argv
    asyncio.run(main(int(the_port), the_token, int(counts[0]), int(counts[1]), float(counts[2])))
