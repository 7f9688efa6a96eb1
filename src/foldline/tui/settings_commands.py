"""/settings: opens Settings over the user's own file and the session in which its values hold."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.agent.agent import at_rest, retune
from foldline.agent.layers import config_file
from foldline.agent.settings import Settings, load_settings
from foldline.agent.settings_edit import change, in_toml
from foldline.compaction import load_strategy
from foldline.compaction.registry import BUILT_IN
from foldline.history.paths import with_tilde
from foldline.protocol import FoldlineError
from foldline.tui.dialogs import pick_theme
from foldline.tui.lists.picker import Choice, Picker
from foldline.tui.runner import Runner
from foldline.tui.screens.settings import SettingsScreen
from foldline.tui.screens.settings_rows import Setting, list_settings
from foldline.tui.themes import own_themes

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp


def open_settings(app: "FoldlineApp", runner: Runner, query: str) -> None:
    """Show all settings; a `query` finds some of them."""
    app.push_screen(SettingsScreen(OwnSettings(app, runner), query.strip()))


def settings_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"settings": lambda runner, query: open_settings(app, runner, query)}


class OwnSettings:
    """The user's own settings, and the session they hold in."""

    def __init__(self, app: "FoldlineApp", runner: Runner) -> None:
        self._app = app
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.state.cwd, {})

    @property
    def file(self) -> str:
        """The file they are kept in, as people are told of it."""
        return with_tilde(str(config_file(os.environ)))

    def read(self) -> None:
        """Look at the files again. Raises FoldlineError where one of them is broken."""
        self._now = self._now.again(self._agent.state.cwd, os.environ)

    @property
    def settings(self) -> tuple[Setting, ...]:
        """As they were read last; of a broken file, what was in force before it broke."""
        model, themes = self._agent.state.llm.info.id, own_themes(self._app.themes)
        try:
            return list_settings(self._now, os.environ, model=model, themes=themes)
        except FoldlineError:
            return list_settings(self._now, {}, model=model, themes=themes)

    async def keep(self, setting: Setting, text: str | None) -> str:
        """Write the value down, or take it out where it is None; what became of it, as a sentence.

        Raises:
            FoldlineError: it was not kept, and nothing has changed.
        """
        cwd = self._agent.state.cwd
        value = None if text is None else in_toml(setting.names, text)
        if text is not None:
            self._demand_usable(setting, text)
        now = await asyncio.to_thread(change, self._now, cwd, os.environ, setting.names, value)
        self._now = now
        told = f"Kept in {self.file}." if text is not None else f"Taken out of {self.file}."
        origin = now.origin(setting.key)
        if text is not None and origin != str(config_file(os.environ)):
            return f"{told} {with_tilde(origin)} goes before it here."
        return f"{told} {self._hold(setting, now)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        """Let the user choose from a list, or on a screen that keeps the choice itself.

        Raises:
            FoldlineError: not now.
        """
        if setting.kind in ("model", "provider"):
            if self._app.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._app.chat.run_command(setting.kind)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            notes = _about(setting.choices) if setting.key == "compaction.strategy" else {}
            choices = [Choice(each, each, notes.get(each, "")) for each in setting.choices]
            picker = Picker(setting.key, choices, marked=setting.value, notes_in_full=True)
            self._app.push_screen(picker, chosen)

    def _demand_usable(self, setting: Setting, text: str) -> None:
        """Raises FoldlineError where a name is right as such, and there is nothing of that name."""
        if setting.key == "compaction.strategy":
            load_strategy(text, self._agent.state.dependencies)
        elif setting.key == "theme" and (fault := self._app.theme_faults().get(text)):
            raise FoldlineError(fault)

    def _hold(self, setting: Setting, now: Settings) -> str:
        """Let a change hold in this session, where it can; what is to be said of that."""
        self._agent.settings = now
        if setting.key == "theme":
            self._app.wear(now.theme)
            return ""
        if setting.effect == "sessions":
            return "This session stays as it is; /approvals switches it."
        if setting.effect == "start":
            return "It counts from the next start on."
        tune = retune(self._agent.state, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._app.run_worker(unused.aclose(), group="unused")
            self._app.presenter.show(replace(self._app.state, compaction_mode=self._agent.state.mode))
            self._app.presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."


def _about(names: Sequence[str]) -> dict[str, str]:
    """The first sentence that each strategy says of itself."""
    docs = {name: " ".join((BUILT_IN[name].__doc__ or "").split()) for name in names}
    return {name: doc.partition(". ")[0].rstrip(".") for name, doc in docs.items()}
