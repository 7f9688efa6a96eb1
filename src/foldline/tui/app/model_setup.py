"""Commands that concern models: opens Setup, and switches the session to the chosen model."""

import os
from typing import TYPE_CHECKING

from foldline.frontend.runner import Commands, Runner
from foldline.protocol import FoldlineError, operations
from foldline.tui.keys.typed_ahead import DEAF_SECONDS
from foldline.tui.overlays.dialogs import confirmed
from foldline.tui.session_window import SessionWindow

if TYPE_CHECKING:
    from foldline.llm.listing import ListedModel
    from foldline.tui.overlays.setup_servers import SetupResult

NO_KEY = "No API key is stored for the current provider"
KEY_ELSEWHERE = "The API key for {provider} comes from {place}: remove it there"
KEY_KEPT = "The API key was kept"
KEY_REMOVED = (
    "The API key for {provider} has been removed. Use /provider to choose a provider"
)
LOG_OUT_QUESTION = "Log out of {provider}?"
LOG_OUT_NOTE = (
    "removes the API key from {file}; this session keeps using it until it ends"
)
OFFLINE_CHOSEN = (
    "The built-in offline model is used. Use /model to choose another model"
)


class ModelSetup:
    """Opens Setup and applies the user's choice.

    On the first start, prompts wait for this choice.
    """

    def __init__(
        self, chat: SessionWindow, runner: Runner, *, is_first_start: bool
    ) -> None:
        self._chat = chat
        self._runner = runner
        self._needs_choice = is_first_start
        self._is_choosing = False

    @property
    def commands(self) -> Commands:
        return {
            "model": self._model,
            "provider": self._provider,
        }

    def begin(self, early: list[str]) -> None:
        """Send the prompts entered before the session was open.

        On the first start, open Setup. If the user is already typing, Setup opens on Enter instead.
        """
        for text in early:
            if not self.holds(text):
                self._runner.send(text)
        if self._needs_choice and not early and not self._chat.prompt.editor.text:
            self._open()

    def holds(self, text: str) -> bool:
        """Hold a prompt and open Setup, if no model has been chosen yet.

        Returns:
            Whether the prompt is held.
        """
        if not self._needs_choice:
            return False
        self._runner.edit_queue((), (text,), paused=True)
        self._open()
        return True

    def _model(self, runner: Runner, name: str) -> None:
        if name:
            self._needs_choice = False
            runner.submit(operations.SwitchModel(model=name))
        else:
            self._open(at_models=True)

    def _provider(self, _: Runner, word: str) -> None:
        if word == "logout":
            self._chat.report(self._log_out(), "logout")
        else:
            self._open()

    def _open(self, *, at_models: bool = False) -> None:
        """Let the user choose a model, beginning with the providers or with the current one's models."""
        if not self._is_choosing:
            self._is_choosing = True
            self._chat.run_worker(self._choose(at_models=at_models), group="setup")

    async def _choose(self, *, at_models: bool) -> None:
        from foldline.agent.session.commands import compacts_before_switch
        from foldline.agent.settings.settings import load_settings
        from foldline.tui.overlays.setup import ModelDialog
        from foldline.tui.overlays.setup_servers import KnownServers

        agent_state = self._runner.agent.state

        def compacts_first(offer: "ListedModel") -> bool:
            window = settings.window_of(offer.id) or offer.window
            return window is not None and compacts_before_switch(
                agent_state.compaction, window, offer.max_output, offer.id
            )

        try:
            settings = load_settings(agent_state.cwd, os.environ)
            servers = KnownServers(settings, os.environ, compacts_first)
            current, deaf_until = servers.in_use(agent_state.models.llm), 0.0
            if self._needs_choice:
                current, deaf_until = ("", ""), self._chat.clock() + DEAF_SECONDS
            dialog = ModelDialog(self._chat, servers, current, deaf_until)
            choice = await dialog.choose(at_models=at_models)
            self._is_choosing = self._needs_choice  # prompts wait for the switch, too
            await self._apply(choice)
        except FoldlineError as failure:
            self._chat.remark(str(failure))
        finally:
            self._is_choosing = False

    async def _log_out(self) -> str:
        """Remove the API key of the current provider, if the user agrees.

        Returns:
            A message for the status row.
        """
        from foldline.agent.settings.api_keys import KEYS_FILE
        from foldline.agent.settings.settings import load_settings
        from foldline.tui.overlays.setup_servers import KnownServers

        state = self._runner.agent.state
        servers = KnownServers(
            load_settings(state.cwd, os.environ),
            os.environ,
            lambda _: False,
        )
        current, _ = servers.in_use(state.models.llm)
        source = next(
            (source for source in servers.sources if source.name == current), None
        )
        if source is None or not source.key_in:
            return NO_KEY
        if source.key_in != KEYS_FILE:
            return KEY_ELSEWHERE.format(provider=source.title, place=source.key_in)
        note = LOG_OUT_NOTE.format(file=KEYS_FILE)
        if not await confirmed(
            self._chat,
            LOG_OUT_QUESTION.format(provider=source.title),
            "Log out",
            note,
        ):
            return KEY_KEPT
        await servers.forget(source)
        return KEY_REMOVED.format(provider=source.title)

    async def _apply(self, choice: "SetupResult | None") -> None:
        """Switch the model in the same way as /model.

        The switch is recorded and, if needed, the view is compacted.
        """
        if choice is not None:
            switch = operations.SwitchModel(model=choice.named)
            finished = await self._runner.run(switch)
            if finished.outcome == "done":
                self._release_prompts()
        elif self._needs_choice:
            self._chat.remark(OFFLINE_CHOSEN)
            self._release_prompts()

    def _release_prompts(self) -> None:
        """Send the prompts that waited for the first choice of a model."""
        if self._needs_choice:
            self._needs_choice = False
            self._runner.set_paused(False)
