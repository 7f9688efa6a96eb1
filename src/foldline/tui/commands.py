"""The one registry of commands: keys, palette, completion, help, hints and the docs table come from it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from foldline.tui.state import ChatState

Place = Literal["anywhere", "prompt", "panel"]
"""Where a command's keys work. `anywhere`: whatever has the focus. `prompt`: in the editor, which asks here
what its keys mean. `panel`: outside of text fields, where a letter is a command."""

Scope = Literal["chat", "app"]
"""Who carries it out: the chat screen itself, or the program it posts `CommandInvoked` to."""


def _always(_: ChatState) -> bool:
    return True


def _idle(state: ChatState) -> bool:
    return not state.busy


def _broke_off(state: ChatState) -> bool:
    return state.unanswered and not state.busy


def _asked(state: ChatState) -> bool:
    return state.question is not None and not state.asks_choice


def _has_other_rules(state: ChatState) -> bool:
    return state.question is not None and len(state.question.promises) > 1


@dataclass(frozen=True, slots=True)
class Command:
    """One thing the reader can ask for."""

    id: str
    title: str
    help: str
    group: str
    keys: tuple[str, ...] = ()
    """Textual's names, the one to show first."""
    slash: str = ""
    argument: str = ""
    """What may follow the slash command, as shown to people; `[…]` where it may be left out."""
    place: Place = "anywhere"
    scope: Scope = "chat"
    enabled: Callable[[ChatState], bool] = _always
    hint: str = ""
    """Its word in the row of hints; commands with the same word share a place there."""
    palette: bool = True


COMMANDS: tuple[Command, ...] = (
    Command(
        "send",
        "Send the prompt",
        "Sends the prompt; while something runs it waits in the queue. A marked one changes places.",
        "Prompt",
        keys=("enter",),
        place="prompt",
        palette=False,
    ),
    Command(
        "newline",
        "New line",
        "Starts a new line in the prompt.",
        "Prompt",
        keys=("ctrl+j", "shift+enter"),
        place="prompt",
        palette=False,
    ),
    Command(
        "recall-older",
        "Older prompt",
        "On the first line: the queued prompts; without a queue, what was sent or put aside before.",
        "Prompt",
        keys=("up",),
        place="prompt",
        palette=False,
    ),
    Command(
        "recall-newer",
        "Newer prompt",
        "On the last line: back towards the text you were writing.",
        "Prompt",
        keys=("down",),
        place="prompt",
        palette=False,
    ),
    Command(
        "editor",
        "Write the prompt in an editor",
        "Opens the prompt in $VISUAL or $EDITOR; what is saved there comes back here.",
        "Prompt",
        keys=("ctrl+g",),
    ),
    Command(
        "retry",
        "Try again",
        "Goes on with a turn that failed or was stopped: the same request once more, without a new prompt.",
        "Prompt",
        keys=("alt+r",),
        slash="retry",
        scope="app",
        enabled=_broke_off,
        hint="try again",
    ),
    Command(
        "inspector",
        "Inspector",
        "Every entry, what the model will be sent, and the files, side by side.",
        "Context",
        keys=("f2",),
        slash="inspector",
        scope="app",
        hint="inspector",
    ),
    Command(
        "compact",
        "Compact the context",
        "Folds the older part of the conversation into a summary now; a focus says what it should dwell on.",
        "Context",
        slash="compact",
        argument="[--preview] [focus]",
        scope="app",
        enabled=lambda state: state.compacting is None,
    ),
    Command(
        "preview",
        "Compact preview",
        "Shows a fold before it is made: the cut, the draft and what would be lost.",
        "Context",
        keys=("f3",),
        slash="preview",
        argument="[focus]",
        scope="app",
        hint="compact preview",
    ),
    Command(
        "strategy",
        "Switch the compaction strategy",
        "How the next folds are made; without a name, lists the strategies there are.",
        "Context",
        slash="strategy",
        argument="[name]",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "undo",
        "Undo the last fold, clear or rewind",
        "Takes back the newest compaction, clear or rewind: the model has again what it had before.",
        "Context",
        slash="undo",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "rewind",
        "Rewind",
        "Goes back to before a prompt or a step: context, files, or both. Esc twice on an empty prompt.",
        "Context",
        slash="rewind",
        scope="app",
    ),
    Command(
        "clear",
        "Clear the context",
        "Empties what the model has down to system prompt and pins. The history keeps everything.",
        "Context",
        slash="clear",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "prompt-older",
        "Previous prompt",
        "Scrolls the transcript to the prompt before.",
        "Transcript",
        keys=("alt+up",),
        hint="prompts",
    ),
    Command(
        "prompt-newer",
        "Next prompt",
        "Scrolls the transcript to the next prompt.",
        "Transcript",
        keys=("alt+down",),
        hint="prompts",
    ),
    Command(
        "page-up",
        "Scroll up",
        "Scrolls the transcript one page up, from anywhere.",
        "Transcript",
        keys=("pageup",),
        hint="scroll",
    ),
    Command(
        "page-down",
        "Scroll down",
        "Scrolls the transcript one page down, from anywhere.",
        "Transcript",
        keys=("pagedown",),
        hint="scroll",
    ),
    Command(
        "end",
        "To the end",
        "Shows the end and follows it again. So does End at the end of the prompt's text.",
        "Transcript",
        keys=("ctrl+end",),
    ),
    Command(
        "open-tools",
        "Open or close all tool calls",
        "Shows what every tool call was given and gave back, or only its one line.",
        "Transcript",
        keys=("ctrl+o",),
        scope="app",
        hint="open tools",
    ),
    Command(
        "complete",
        "Take the completion, or go to the next panel",
        "Takes the marked completion of a /command or @file; with no list open, goes to the next panel.",
        "Panels",
        keys=("tab",),
        palette=False,
        hint="panels",
    ),
    Command(
        "allow-once",
        "Allow this call once",
        "Answers the question of a tool call: run it this time.",
        "Questions",
        keys=("alt+y",),
        enabled=_asked,
    ),
    Command(
        "allow-always",
        "Always allow calls like this",
        "Answers the question of a tool call: run it, and what the question says beside always, in this "
        "session.",
        "Questions",
        keys=("alt+a",),
        enabled=_asked,
    ),
    Command(
        "allow-project",
        "Always allow calls like this in this project",
        "The same in every session of this folder, until /approvals takes it back.",
        "Questions",
        keys=("alt+p",),
        enabled=_asked,
    ),
    Command(
        "other-rule",
        "Mean another rule by always",
        "Shows what else always may stand for, such as exactly this command.",
        "Questions",
        keys=("alt+w",),
        enabled=_has_other_rules,
    ),
    Command(
        "decline",
        "Decline this call",
        "Answers the question of a tool call: do not run it.",
        "Questions",
        keys=("alt+n",),
        enabled=_asked,
    ),
    Command(
        "approvals",
        "What runs unasked",
        "The rules in force, to be taken back, and the mode: ask, edits or all.",
        "Questions",
        slash="approvals",
        scope="app",
    ),
    Command(
        "escape",
        "Step outwards",
        "Closes, leaves, cancels or puts aside; the status row says which. Discards nothing.",
        "Program",
        keys=("escape",),
        palette=False,
    ),
    Command(
        "interrupt",
        "Copy, cancel, quit",
        "Copies a selection; else cancels what runs; else quits when pressed twice within 2 seconds.",
        "Program",
        keys=("ctrl+c",),
        palette=False,
    ),
    Command(
        "model",
        "Switch the model",
        "Without a name, shows those there are, with window and price. NAME@PROVIDER asks another provider.",
        "Program",
        slash="model",
        argument="[name]",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "provider",
        "Providers and keys",
        "Chooses who runs the model: a provider with your key, a server of your own, or the built-in one.",
        "Program",
        slash="provider",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "mcp",
        "MCP servers",
        "How it is with the tool servers that are set up; Enter, or a name, connects one anew.",
        "Program",
        slash="mcp",
        argument="[name]",
        scope="app",
    ),
    Command(
        "sessions",
        "Sessions",
        "Those of this folder, of all folders, of other agents: to search, resume, read, fork and tidy.",
        "Sessions",
        slash="sessions",
        scope="app",
    ),
    Command(
        "search",
        "Search all sessions",
        "Finds what was ever said in any session.",
        "Sessions",
        slash="search",
        argument="[query]",
        scope="app",
    ),
    Command(
        "rename",
        "Rename this session",
        "Gives this session another title.",
        "Sessions",
        slash="rename",
        argument="TITLE",
        scope="app",
    ),
    Command(
        "fork",
        "Fork this session",
        "Goes on in a copy from here; this session stays as it is.",
        "Sessions",
        slash="fork",
        scope="app",
        enabled=_idle,
    ),
    Command(
        "theme",
        "Colour theme",
        "Switches the colour theme; without a name, lists them.",
        "Program",
        slash="theme",
        argument="[name]",
    ),
    Command(
        "help",
        "Help",
        "All keys and commands.",
        "Program",
        keys=("f1",),
        slash="help",
    ),
    Command(
        "help-panel",
        "Help",
        "The same as F1, where the focus is not in a text field.",
        "Program",
        keys=("question_mark",),
        place="panel",
        palette=False,
    ),
    Command(
        "palette",
        "Everything",
        "Finds any command by name.",
        "Program",
        keys=("ctrl+p",),
        palette=False,
        hint="everything",
    ),
    Command(
        "quit",
        "Quit",
        "Ends the program; the session is on disk.",
        "Program",
        slash="quit",
        scope="app",
    ),
)

BY_ID: dict[str, Command] = {command.id: command for command in COMMANDS}
BY_SLASH: dict[str, Command] = {command.slash: command for command in COMMANDS if command.slash}


def ids(scope: Scope) -> frozenset[str]:
    """The commands one party has a dictionary of callables for; the prompt's own keys are the prompt's."""
    return frozenset(c.id for c in COMMANDS if c.scope == scope and c.place != "prompt")


def check_handlers(handlers: Iterable[str], scope: Scope) -> None:
    """Raises `LookupError` where a command has no handler, or a handler no command."""
    given, wanted = frozenset(handlers), ids(scope)
    if given != wanted:
        raise LookupError(
            f"{scope} handlers missing: {sorted(wanted - given)}, unknown: {sorted(given - wanted)}"
        )


def slash_matches(typed: str, state: ChatState) -> tuple[Command, ...]:
    """Slash commands whose name begins with what was typed (without `/`), then those that contain it."""
    typed = typed.lower()
    usable = [command for name, command in sorted(BY_SLASH.items()) if command.enabled(state)]
    first = [command for command in usable if command.slash.startswith(typed)]
    return (*first, *(command for command in usable if command not in first and typed in command.slash))


@dataclass(frozen=True, slots=True)
class Hint:
    """One item of the row of hints."""

    keys: str
    label: str


def hints(state: ChatState) -> tuple[Hint, ...]:
    """What the row of hints offers now, in order; the last one belongs at the right end."""
    grouped: dict[str, list[str]] = {}
    for command in COMMANDS:
        if command.hint and command.keys and command.enabled(state):
            grouped.setdefault(command.hint, []).append(key_name(command.keys[0]))
    return tuple(Hint(_joined(names), label) for label, names in grouped.items())


_NAMES = {
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "up": "↑",
    "down": "↓",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "end": "End",
    "question_mark": "?",
    "ctrl": "Ctrl",
    "alt": "Alt",
    "shift": "Shift",
}


def key_name(key: str) -> str:
    """A key as people know it: `Ctrl+J`, `Alt+↑`, `F2`, `?`."""
    return "+".join(_NAMES.get(part, part.upper()) for part in key.split("+"))


def _joined(names: Sequence[str]) -> str:
    """`Alt+↑` and `Alt+↓` as `Alt+↑↓`; other pairs by their first key."""
    head, plus, last = names[0].rpartition("+")
    same = plus and all(
        name.rpartition("+")[0] == head and len(name.rpartition("+")[2]) == 1 for name in names
    )
    return f"{head}+{''.join(name.rpartition('+')[2] for name in names)}" if same and last else names[0]


def groups() -> dict[str, tuple[Command, ...]]:
    """The commands by group, both in the registry's order."""
    names = dict.fromkeys(command.group for command in COMMANDS)
    return {name: tuple(command for command in COMMANDS if command.group == name) for name in names}


def slash_usage(command: Command) -> str:
    """`/compact [focus]`; empty for a command without a slash name."""
    return f"/{command.slash} {command.argument}".rstrip() if command.slash else ""


def keys_or_usage(command: Command) -> str:
    """How a command is reached without the palette: its keys, else its slash usage."""
    return ", ".join(key_name(key) for key in command.keys) or slash_usage(command)


def commands_table() -> str:
    """Every command as Markdown tables, one a group, for the documentation."""
    parts: list[str] = []
    for name, commands in groups().items():
        rows = [f"### {name}", "", "| keys | command | what it does |", "|---|---|---|"]
        for command in commands:
            keys = ", ".join(f"`{key_name(key)}`" for key in command.keys)
            usage = f"`{slash_usage(command)}`" if command.slash else ""
            rows.append(f"| {keys} | {usage} | {command.title}. {command.help} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"
