"""Checks whether NATS stores messages, over connections of its own."""

from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from shared.errors import TransientError
from shared.events.credentials import Credentials
from shared.events.stream_reader import StreamHistory, connect_reader
from shared.events.topology import STORE_FAULT, STREAM

STORE_SECONDS = 3.0
"""Time that NATS has to confirm a message."""


async def find_store_fault(
    url: str, reader: Credentials, publisher: Credentials, *, name: str
) -> str | None:
    """Publishes the newest event again, and returns why NATS did not store it; None if it did.

    An event may be published again: its id is the same, and handlers read its state from PostgreSQL. `reader` may read the
    stream, and `publisher` may publish every event. A stream without events cannot be checked, and counts as a fault.
    """
    try:
        async with connect_reader(url, reader, name=name) as client:
            history = StreamHistory(client)
            state = await history.state()
            last = 0 if state is None else state.last
            newest = await history.read_after(max(last - 1, 0), max_events=1, max_bytes=0)
        if not newest:
            return f"{STORE_FAULT}: its stream has none"
        async with connect_reader(url, publisher, name=name) as client:
            await client.jetstream().publish(
                newest[0].subject, newest[0].payload, timeout=STORE_SECONDS, stream=STREAM
            )
    except TimeoutError:
        return f"{STORE_FAULT}: it does not confirm them"
    except (TransientError, NatsError, JetStreamError) as error:
        return f"{STORE_FAULT}: {error}"
    return None
