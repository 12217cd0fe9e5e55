"""Services in their own processes."""

import asyncio

from shared.runtime import consumer as service_module
from shared.runtime.step_runner import StepResult
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support.warm_processes import WarmProcess, start_python


async def nothing(lease: Lease, step: StepRow) -> StepResult:
    return StepResult({"queries": 0, "insights": 0})


async def ready(consumer: service_module.MessageConsumer) -> bool:
    return await consumer.fault() is None


async def observer_process(environment: dict[str, str], port: int) -> WarmProcess:
    return await start_python(
        "-m",
        "services.observer",
        env=environment | {"VIGIL_PORT": str(port)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
