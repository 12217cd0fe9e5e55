"""One run of a phase: its interaction, its prompts and its requests. It can be resumed at any point."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from shared.agents import agents
from shared.agents.contexts import StepGroup
from shared.agents.model_choice import split_models
from shared.enums import Phase
from shared.llm import phase_run_store
from shared.llm.ledgered_model import LedgeredModel
from shared.llm.messages import ChatRequest
from shared.llm.paid_calls import CallSender, RunJournal
from shared.llm.pricing import Prices
from shared.llm.provider import Embedder, Model
from shared.workflow.leases import Lease


class PhaseRun(RunJournal):
    """One phase of one step: its interaction row and its calls. The callers handle tools and parsing."""

    def __init__(
        self,
        model: Model,
        lease: Lease,
        agent: agents.WorkerAgent,
        phase: Phase,
        user_message: str,
        *,
        system_prompt: str | None = None,
        rules: str = "",
        context: str = "",
        pinned_for: StepGroup | None = None,
        models: str | None = None,
    ) -> None:
        """Without a `system_prompt`, uses the agent's prompt for `phase`, and without `models` its models for it.

        `rules` are those of the phase for every agent. They stand before the prompt.

        `context` is the part of the message that other runs share. It is stored once for all of them, and pinned for the
        steps `pinned_for`.
        """
        super().__init__(model, lease, phase)
        self._settings = model
        self._user_message = user_message
        prompt = system_prompt or agents.system_prompt(agent, phase)
        self._system_prompt = f"{rules}\n\n{prompt}" if rules else prompt
        self._context = context
        self._pinned_for = pinned_for
        self._model_names = split_models(
            models or agents.model_name(agent, phase, model.default_name)
        )
        sender = CallSender(model, self)
        self.send = sender.send
        self.model = LedgeredModel(model, self, sender, self._model_names, context)
        """The models that answer the requests of the run."""

    @property
    def embedder(self) -> Embedder | None:
        return self._settings.embedder

    @property
    def prices(self) -> Prices:
        return self._settings.prices

    @property
    def first_message(self) -> str:
        """The first message of the request, as it was first sent. The run must have started."""
        message: str = self.stored.request["messages"][0]["content"]
        return message

    @property
    def is_resumed(self) -> bool:
        """Whether an earlier worker started the run. Call it after `begin`."""
        return bool(self.stored.events) or self.first_message != self._user_message

    @property
    def left_out(self) -> Collection[str]:
        """Addresses of pages that the model was not shown, because its provider refuses their text."""
        return self.model.refused_pages.since.keys()

    async def begin(
        self,
        tools: Sequence[dict[str, Any]] = (),
        response_format: dict[str, Any] | Callable[[str], dict[str, Any]] | None = None,
        *,
        must_act: bool = False,
        opens_call: bool = True,
    ) -> ChatRequest:
        """Creates or resumes the run and returns its first request, whose call it opens unless `opens_call` is False.

        A resumed run sends the request as it was first sent, even if the prompts or the graph changed since. With
        `must_act` the model must call a tool, if the settings allow to demand that. If the `response_format` depends on the
        first message, it is a function of it.
        """
        demanded = must_act and self._settings.requires_tools
        tool_choice = {"tool_choice": "required"} if demanded else {}
        interaction = phase_run_store.NewRun(
            self._settings.database,
            self.lease,
            self.phase,
            model=self._model_names[0],
            system_prompt=self._system_prompt,
            request={
                "messages": [{"role": "user", "content": self._user_message}],
                "tools": [tool["function"]["name"] for tool in tools],
                **tool_choice,
            },
            context=self._context,
            pinned_for=self._pinned_for,
        )
        if self.lease.unit is not None and self.lease.is_first:
            self._stored = interaction.record
            interaction.write_with(self.unit)
        else:
            async with self.unit.transaction() as transaction:
                self._stored = await interaction.open_or_resume(transaction)
            for event in self._stored.events:
                self.model.refused_pages.remember(event)
        started = self.stored.request
        request = self._request(
            *started["messages"],
            tools=tuple(tools),
            response_format=response_format(self.first_message)
            if callable(response_format)
            else response_format,
            tool_choice=started.get("tool_choice"),
        )
        if opens_call:
            self.paid_calls.open_call(request.call)
        return request

    def fresh_request(
        self,
        message: str,
        response_format: dict[str, Any] | None = None,
        tools: Sequence[dict[str, Any]] = (),
    ) -> ChatRequest:
        """A request of this run with the same system prompt, another message and no conversation."""
        return self._request(
            {"role": "user", "content": message},
            response_format=response_format,
            tools=tuple(tools),
        )

    def _request(self, *messages: dict[str, Any], **fields: Any) -> ChatRequest:
        """Requests of a phase of an agent share their beginning."""
        return ChatRequest(
            self.stored.model,
            ({"role": "system", "content": self.stored.system_prompt}, *messages),
            max_output_tokens=self._settings.max_output_tokens[self.phase],
            cache_key=f"{self.lease.agent_id}:{self.phase}",
            options=self._settings.options.get(self.phase, {}),
            **fields,
        )
