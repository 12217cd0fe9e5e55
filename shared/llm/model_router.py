"""Several providers behind one interface: `provider/model` is a model of the provider with that name."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from shared.billing.resumable_call import ResumableCall
from shared.errors import PermanentError
from shared.llm.messages import ORIGIN, ChatAnswer, ChatRequest, messages_for
from shared.llm.provider import ModelFault, OnDelta, Provider
from shared.provider_limits.gate import ProviderGate

UNKNOWN_MODEL: Final = "llm_model"
UNUSABLE_CODES: Final = frozenset({UNKNOWN_MODEL, "llm_quota"})
"""Errors of a model that its provider does not know, or whose account is used up."""
UNUSABLE_SECONDS: Final = 300.0
"""After this time such a model is tried again, if another one is used instead."""


@dataclass(frozen=True)
class Route:
    """One provider."""

    provider: Provider
    gate: ProviderGate


class ModelRouter:
    """Sends each request to the provider of its model."""

    def __init__(self, default: Route, named: Mapping[str, Route]) -> None:
        """`default` has all models that name none of the providers `named`."""
        self._default = default
        self._named = named
        self._unusable: dict[str, tuple[float, str]] = {}
        """Until when a model is not tried, and why."""

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        """See `Provider.complete`."""
        route, name = self._find(request.model)
        messages = messages_for(request.messages, request.model)
        sent = replace(request, model=name, messages=messages)
        try:
            answer = await route.provider.complete(sent, in_flight, on_delta)
        except PermanentError as error:
            explained = self._explain(error, request.model, route)
            if explained.code in UNUSABLE_CODES:
                until = time.monotonic() + UNUSABLE_SECONDS
                self._unusable[request.model] = (until, str(explained))
            raise explained from error.__cause__
        if not answer.tool_calls:
            return answer
        return replace(answer, message={**answer.message, ORIGIN: request.model})

    def fault(self, model: str) -> ModelFault | None:
        """Why the model cannot be used now, as far as this process knows; None if it can."""
        until, reason = self._unusable.get(model, (0.0, ""))
        if time.monotonic() < until:
            return ModelFault(reason)
        outage = self._find(model)[0].gate.outage
        return None if outage is None else ModelFault(outage, is_outage=True)

    def provider_name(self, model: str) -> str | None:
        """The name of the model's provider in the settings; None for the default one."""
        prefix, slash, _ = model.partition("/")
        return prefix if slash and prefix in self._named else None

    async def close(self) -> None:
        for route in (self._default, *self._named.values()):
            await route.provider.close()

    def _explain(self, error: PermanentError, model: str, route: Route) -> PermanentError:
        """`error`, with a hint if the name of an unknown model may begin with that of a provider."""
        prefix, slash, _ = model.partition("/")
        if error.code != UNKNOWN_MODEL or not slash or route is not self._default:
            return error
        explained = PermanentError(
            error.code,
            f"{error}. If {prefix!r} is meant as a provider: VIGIL_PROVIDERS has none of that name",
        )
        explained.unbilled = error.unbilled
        return explained

    def _find(self, model: str) -> tuple[Route, str]:
        """The provider, and its own name of the model."""
        provider = self.provider_name(model)
        if provider is None:
            return self._default, model
        return self._named[provider], model.removeprefix(f"{provider}/")
