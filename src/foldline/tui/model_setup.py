"""/model, /provider and the first start: opens Setup, and makes its choice the session's."""

import os
from typing import TYPE_CHECKING

from foldline.protocol import FoldlineError, operations
from foldline.tui.dialogs import confirmed
from foldline.tui.runner import Commands, Runner

if TYPE_CHECKING:
    from foldline.llm.listing import ListedModel
    from foldline.tui.open_session import OpenSession
    from foldline.tui.screens.setup import Step
    from foldline.tui.screens.setup_servers import Choice


class Setup:
    """Opens the screen, and makes its choice the session's. Until a first start is decided, prompts wait."""

    def __init__(self, chat: "OpenSession", runner: Runner, *, is_first_start: bool) -> None:
        self._chat = chat
        self._runner = runner
        self._undecided = is_first_start

    @property
    def commands(self) -> Commands:
        return {
            "model": self._model,
            "effort": self._effort,
            "provider": lambda _, __: self._open("provider"),
            "logout": lambda _, __: self._chat.report(self._log_out(), "logout"),
        }

    def begin(self, early: list[str]) -> None:
        """The session is open, and these prompts came before it. At a first start the screen comes now, or,
        where somebody is writing already, before the prompt goes: nobody's keys are taken away."""
        for text in early:
            if not self.holds(text):
                self._runner.send(text)
        if self._undecided and not early and not self._chat.prompt.editor.text:
            self._open("provider")

    def holds(self, text: str) -> bool:
        """Whether a prompt waits for the first choice of a model; that is then asked for."""
        if not self._undecided:
            return False
        self._runner.edit_queue((), (text,), paused=True)
        self._open("provider")
        return True

    def _model(self, runner: Runner, name: str) -> None:
        if name:
            self._undecided = False
            runner.submit(operations.SwitchModel(model=name))
        else:
            self._open("model")

    def _open(self, step: "Step") -> None:
        """Show the screen at a step; the models are those of the provider in use."""
        from foldline.agent.commands import compacts_before_switch
        from foldline.agent.settings import load_settings
        from foldline.tui.screens.setup import SetupScreen
        from foldline.tui.screens.setup_servers import KnownServers

        if isinstance(self._chat.front, SetupScreen):
            return
        agent_state = self._runner.agent.state

        def compacts_first(offer: "ListedModel") -> bool:
            window = settings.window_of(offer.id) or offer.window
            return window is not None and compacts_before_switch(
                agent_state, window, offer.max_output, offer.id
            )

        try:
            settings = load_settings(agent_state.cwd, os.environ)
            servers = KnownServers(settings, os.environ, compacts_first)
        except FoldlineError as failure:
            self._chat.remark(str(failure))
            return
        screen = SetupScreen(
            servers,
            current=("", "") if self._undecided else servers.in_use(agent_state.llm),
            step=step,
            clock=self._chat.clock,
            by_itself=self._undecided,
        )
        self._chat.push_screen(screen, self._decided)

    def _effort(self, _: Runner, effort: str) -> None:
        """Keep how much the model is to think, and let it hold here; without a word, let the user choose."""

        from foldline.tui.screens.settings import OwnSettings

        own = OwnSettings(self._chat, self._runner)

        async def keep(chosen: str) -> str:
            return f"Effort {chosen}. {await own.keep('effort', chosen)}"

        def do(chosen: str | None) -> None:
            if chosen:
                self._chat.report(keep(chosen), "effort")

        if effort:
            do(effort.strip().lower())
        else:
            try:
                own.choose(next(each for each in own.read() if each.key == "effort"), do)
            except FoldlineError as failure:
                self._chat.remark(str(failure))

    async def _log_out(self) -> str:
        """Remove the key of the provider in use, once the user agrees; what became of it."""
        from foldline.agent.api_keys import KEYS_FILE
        from foldline.agent.settings import load_settings
        from foldline.tui.screens.setup_servers import KnownServers

        state = self._runner.agent.state
        servers = KnownServers(load_settings(state.cwd, os.environ), os.environ, lambda _: False)
        used, _ = servers.in_use(state.llm)
        source = next((each for each in servers.sources if each.name == used), None)
        if source is None or not source.key_in:
            return "The provider in use has no key here"
        if source.key_in != KEYS_FILE:
            return f"The key of {source.title} comes from {source.key_in}: remove it there"
        keeps = f"its key is removed from {KEYS_FILE}; this session keeps it until it ends"
        if not await confirmed(self._chat, f"Log out of {source.title}?", "Log out", keeps):
            return "Nothing was removed"
        await servers.forget(source)
        return f"The key of {source.title} is removed. /provider chooses another provider"

    def _decided(self, choice: "Choice | None") -> None:
        if choice is not None:
            self._chat.run_worker(self._switch(choice), group="model")
        elif self._undecided:
            self._chat.remark("The built-in offline model answers. /model chooses another one")
            self._go_on()

    async def _switch(self, choice: "Choice") -> None:
        """An ordinary switch, so that the history has it and the view is compacted for a smaller window."""
        executor = self._runner.agent.executor
        finished = await executor.wait_for(executor.submit(operations.SwitchModel(model=choice.named)))
        if finished.outcome == "done":
            self._go_on()

    def _go_on(self) -> None:
        """The first choice is made: what waited for it is sent."""
        if self._undecided:
            self._undecided = False
            self._runner.set_paused(False)
