"""Connects the Settings screen to the program, the agent and the user's file: /settings."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from foldline.agent.changing import change, in_toml
from foldline.agent.layers import config_file
from foldline.agent.retuning import at_rest, retune
from foldline.agent.settings import Settings, load_settings
from foldline.compaction import load_strategy
from foldline.compaction.loading import BUILT_IN
from foldline.history.paths import home_apart
from foldline.protocol import FoldlineError
from foldline.tui.choosing.picker import Choice, Picker
from foldline.tui.dialogs import pick_theme
from foldline.tui.runner import Runner
from foldline.tui.settings.gathering import gathered
from foldline.tui.settings.state import Setting, begin
from foldline.tui.themes import own_themes

if TYPE_CHECKING:
    from foldline.tui.app import FoldlineApp


def open_settings(app: "FoldlineApp", runner: Runner, query: str) -> None:
    """Show all settings; a `query` finds some of them."""
    from foldline.tui.settings.screen import SettingsScreen

    keeper = OwnSettings(app, runner)
    try:
        keeper.read()
        fault = ""
    except FoldlineError as failure:
        fault = str(failure)
    state = begin(keeper.settings_known(), keeper.file)
    screen = SettingsScreen(replace(state.searched(query.strip()), fault=fault), keeper)
    app.push_screen(screen)


class OwnSettings:
    """The user's own settings, and the session they hold in."""

    def __init__(self, app: "FoldlineApp", runner: Runner) -> None:
        self._app = app
        self._agent = runner.agent
        self._now = runner.agent.settings or load_settings(runner.agent.desk.cwd, {})

    @property
    def file(self) -> str:
        return home_apart(str(config_file(os.environ)))

    def read(self) -> None:
        """Look at the files again.

        Raises:
            FoldlineError: one of them is broken.
        """
        self._now = self._now.again(self._agent.desk.cwd, os.environ)

    def settings(self) -> tuple[Setting, ...]:
        self.read()
        return self.settings_known()

    def settings_known(self) -> tuple[Setting, ...]:
        """As they were read last; of a broken file, what was in force before it broke."""
        model, themes = self._agent.desk.llm.info.id, self._themes()
        try:
            return gathered(self._now, os.environ, model=model, themes=themes)
        except FoldlineError:
            return gathered(self._now, {}, model=model, themes=themes)

    def fault(self, setting: Setting, text: str) -> str:
        try:
            in_toml(setting.names, text)
        except FoldlineError as failure:
            return str(failure)
        return ""

    async def keep(self, setting: Setting, text: str | None) -> str:
        cwd = self._agent.desk.cwd
        value = None if text is None else in_toml(setting.names, text)
        if text is not None:
            self._demand_usable(setting, text)
        now = await asyncio.to_thread(change, self._now, cwd, os.environ, setting.names, value)
        self._now = now
        told = f"Kept in {self.file}." if text is not None else f"Taken out of {self.file}."
        origin = now.origin(setting.key)
        if text is not None and origin != str(config_file(os.environ)):
            return f"{told} {home_apart(origin)} goes before it here."
        return f"{told} {self._hold(setting, now)}".rstrip()

    def choose(self, setting: Setting, chosen: Callable[[str | None], None]) -> None:
        if setting.kind in ("model", "provider"):
            if self._app.state.busy:
                raise FoldlineError("The model is switched between turns: this one is not over yet.")
            self._app.chat.run_command(setting.kind)
        elif setting.key == "theme":
            pick_theme(self._app, chosen)
        else:
            notes = _about(setting.choices) if setting.key == "compaction.strategy" else {}
            choices = [Choice(each, each, notes.get(each, "")) for each in setting.choices]
            self._app.push_screen(
                Picker(setting.key, choices, marked=setting.value, notes_in_full=True), chosen
            )

    def _themes(self) -> Sequence[str]:
        return own_themes(self._app.themes)

    def _demand_usable(self, setting: Setting, text: str) -> None:
        """Raises FoldlineError where a name is right as such, and there is nothing of that name."""
        if setting.key == "compaction.strategy":
            load_strategy(text, self._agent.desk.dependencies)
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
        tune = retune(self._agent.desk, now, os.environ)

        def do() -> None:
            unused = tune()
            if unused is not None:
                self._app.run_worker(unused.aclose(), group="unused")
            self._app.presenter.show(replace(self._app.state, fold=self._agent.desk.mode))
            self._app.presenter.refresh_figures()

        return "It counts now." if at_rest(self._agent, do) else "It counts after this turn."


def _about(names: Sequence[str]) -> dict[str, str]:
    """The first sentence that each strategy says of itself."""
    docs = {name: " ".join((BUILT_IN[name].__doc__ or "").split()) for name in names}
    return {name: doc.partition(". ")[0].rstrip(".") for name, doc in docs.items()}


def settings_commands(app: "FoldlineApp") -> dict[str, Callable[[Runner, str], None]]:
    return {"settings": lambda runner, query: open_settings(app, runner, query)}
