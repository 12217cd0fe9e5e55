"""A model of the bus: at least once, in any order. What was published may be lost when NATS loses power."""

from collections.abc import Callable
from typing import Final

from tests.support.simulation.scheduler import Actor, Scheduler, Steps, Task
from tests.support.simulation.statistics import Statistics

WORK, ENDED = "work", "ended"
ACK_WAIT_SECONDS: Final = 20.0
LOSS, DUPLICATION = 1 / 100, 1 / 50


class Message:
    __slots__ = ("content", "is_acknowledged", "queue")

    def __init__(self, queue: str, content: int) -> None:
        self.queue = queue
        self.content = content
        self.is_acknowledged = False


class Bus:
    def __init__(self, scheduler: Scheduler, statistics: Statistics) -> None:
        self._scheduler = scheduler
        self._statistics = statistics
        self._available: dict[str, list[Message]] = {WORK: [], ENDED: []}
        self._arrival: dict[str, list[Actor]] = {WORK: [], ENDED: []}
        self.on_acknowledge: Callable[[Message], None] = lambda _: None

    def publish(self, queue: str, content: int) -> None:
        """Publish an event about `content`: the id of a step or of an iteration."""
        chance = self._scheduler.random.random()
        if chance < LOSS:
            self._statistics.lost_messages += 1
            return
        self._offer(Message(queue, content))
        if chance > 1 - DUPLICATION:
            self._statistics.duplicated_messages += 1
            self._offer(Message(queue, content))

    def pull(self, queue: str) -> Task[Message]:
        """Wait for a message; the generator returns it. It is delivered again unless it is acknowledged in time."""
        available = self._available[queue]
        while not available:
            yield self._arrival[queue]
        place = int(self._scheduler.random.random() * len(available))
        message = available.pop(place)
        self._scheduler.spawn(self._redeliver(message, ACK_WAIT_SECONDS))
        return message

    def acknowledge(self, message: Message) -> None:
        self.on_acknowledge(message)
        message.is_acknowledged = True

    def reject(self, message: Message, seconds: float) -> None:
        """Deliver the message again after a delay."""
        message.is_acknowledged = True
        self._scheduler.spawn(self._redeliver(Message(message.queue, message.content), seconds))

    def _redeliver(self, message: Message, seconds: float) -> Steps:
        yield seconds
        if not message.is_acknowledged:
            self._statistics.redelivered_messages += 1
            self._offer(message)

    def _offer(self, message: Message) -> None:
        self._available[message.queue].append(message)
        self._scheduler.wake(self._arrival[message.queue])
