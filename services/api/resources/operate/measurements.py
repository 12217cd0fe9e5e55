"""Measures the installation for the page Operate and for programs: services, the bus, open work, outages."""

from dataclasses import dataclass
from time import monotonic

from starlette.datastructures import State

from services.api.auth.dependencies import Access
from services.api.resources.operate import model
from services.api.resources.operate.diagnostics import LoadSampler, Measurements
from services.api.resources.operate.outages import read_outages
from services.api.streaming.event_hub import EventHub
from services.api.web.rendering import Assets
from shared.errors import TransientError
from shared.events.stream_admin import Queue
from shared.events.stream_reader import StreamState


@dataclass(frozen=True)
class BusState:
    """The state of the event stream, or why it is unavailable."""

    queues: list[Queue]
    held: StreamState | None = None
    version: str | None = None
    fault: str | None = None


async def read_bus(hub: EventHub) -> BusState:
    try:
        return BusState(await hub.queues(), await hub.stream_state(), hub.server_version)
    except TransientError as error:
        return BusState([], fault=str(error))


async def measure(state: State, access: Access, bus: BusState) -> Measurements:
    """`state` is that of the application."""
    hub: EventHub = state.hub
    loads: LoadSampler = state.loads
    assets: Assets = state.assets
    at_work = await model.read_workforce(access.session)
    waiting = await model.read_waiting(access.session)
    return Measurements(
        loads=loads.look(monotonic(), bus.queues, at_work, waiting),
        bus_fault=bus.fault,
        state=await model.read_installation_state(access.session),
        listeners=hub.listeners,
        max_listeners=hub.max_listeners,
        scripts_are_there=assets.are_complete,
        outages=await read_outages(access.session, None, state.settings),
    )
