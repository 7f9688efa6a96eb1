"""The chat's commands: one table that keys, slash commands, palette, help, hints and docs come from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from foldline.tui.keys.table import KeyTable, Place, ScreenKey, table
from foldline.tui.state import ChatState

if TYPE_CHECKING:
    from foldline.agent.discovery import Custom

CHAT: Final = "chat"
"""The name of the chat's table."""

Scope = Literal["chat", "app"]
"""Who carries it out: the chat screen itself, or the program it posts `CommandInvoked` to."""


@dataclass(frozen=True, slots=True)
class Command(ScreenKey[ChatState]):
    """A key of the chat."""

    place: Place = "anywhere"
    scope: Scope = "chat"
    argument: str = ""
    """What may follow the slash command, as shown to people; `[…]` where it may be left out."""

    @property
    def slash(self) -> str:
        """The name of its slash command; empty where it has none."""
        return ""

    @property
    def slashes(self) -> tuple[str, ...]:
        """All it can be typed as, without the `/`."""
        return ()

    @property
    def usage(self) -> str:
        """`/compact [focus]`; empty for a command without a slash name."""
        return f"/{self.slash} {self.argument}".rstrip() if self.slash else ""

    @property
    def explained(self) -> str:
        """What it does, and what else it can be typed as."""
        *names, last = [f"/{name}" for name in self.slashes] or [""]
        also = " and ".join(filter(None, (", ".join(names[1:]), last)))
        return f"{self.help_text} Also {also}." if names else self.help_text


@dataclass(frozen=True, slots=True)
class SlashCommand(Command):
    """A slash command, which may have a key, too."""

    scope: Scope = "app"
    aliases: tuple[str, ...] = ()
    """What people type who come from other agents."""

    @property
    def slash(self) -> str:
        return self.id

    @property
    def slashes(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


def own_command(found: "Custom") -> SlashCommand:
    """The slash command that a skill, or a command kept in a file, is."""
    return SlashCommand(found.name, (), found.description, title=found.description, argument=found.hint)


def idle(state: ChatState) -> bool:
    return not state.busy


def asked(state: ChatState) -> bool:
    return state.question is not None and not state.asks_choice


COMMANDS: Final[KeyTable[Command]] = table(
    CHAT,
    "Prompt",
    Command(
        "send",
        ("enter",),
        "Sends the prompt; while something runs it waits in the queue. A marked one is swapped in.",
        title="Send the prompt",
        place="prompt",
    ),
    Command(
        "newline",
        ("ctrl+j", "shift+enter", "alt+enter"),
        "Starts a new line in the prompt. So does Enter behind a backslash.",
        title="New line",
        place="prompt",
    ),
    Command(
        "recall-older",
        ("up",),
        "On the first line: the queued prompts; without a queue, what was sent or stashed before.",
        title="Older prompt",
        place="prompt",
    ),
    Command(
        "recall-newer",
        ("down",),
        "On the last line: back towards the text you were writing.",
        title="Newer prompt",
        place="prompt",
    ),
    Command(
        "queue-up",
        ("alt+shift+up",),
        "Sends the marked queued prompt earlier.",
        title="Queued prompt earlier",
        place="prompt",
    ),
    Command(
        "queue-down",
        ("alt+shift+down",),
        "Sends the marked queued prompt later.",
        title="Queued prompt later",
        place="prompt",
    ),
    Command(
        "queue-delete",
        ("delete",),
        "Takes the marked prompt out of the queue and stashes it.",
        title="Stash a queued prompt",
        place="prompt",
    ),
    Command(
        "search-prompts",
        ("ctrl+r",),
        "Finds an earlier prompt, of this session or of another one in this folder.",
        title="Search earlier prompts",
    ),
    Command(
        "paste-picture",
        ("alt+v",),
        "Attaches the picture in the system's clipboard. Pasted or dragged picture files attach themselves.",
        title="Paste a picture",
    ),
    SlashCommand(
        "editor",
        ("ctrl+g",),
        "Opens the prompt, long pastes in full, in $VISUAL or $EDITOR; what is saved there comes back.",
        title="Write the prompt in an editor",
        scope="chat",
    ),
    SlashCommand(
        "retry",
        ("alt+r",),
        "Continues a turn that failed or was stopped: the same request once more, without a new prompt.",
        hint="try again",
        title="Try again",
        works=lambda state: state.unanswered and not state.busy,
    ),
    Command(
        "background",
        ("ctrl+b",),
        "Sends a subagent to the background: the agent goes on, and gets its answer at a later step. It is "
        "the one under the cursor of the transcript, else the one that began first.",
        hint="to the background",
        title="Send a subagent to the background",
        scope="app",
        works=lambda state: bool(state.awaited),
    ),
    "Context",
    SlashCommand(
        "inspector",
        ("f2",),
        "Every entry, what the model will be sent, and the files, side by side.",
        hint="inspector",
        title="Inspector",
    ),
    SlashCommand(
        "compact",
        help="Compacts the older part of the conversation into a summary now; a focus is what it dwells on.",
        title="Compact the context",
        argument="[--preview] [focus]",
        works=lambda state: state.compacting is None,
        aliases=("compress", "summarize"),
    ),
    Command(
        "compact-first",
        ("alt+c",),
        "Compacts before the next request: what the status row offers where the provider's cache ends.",
        title="Compact before the next request",
        scope="app",
        works=lambda state: not state.busy and state.cache is not None and bool(state.cache.compacted),
    ),
    SlashCommand(
        "preview",
        ("f3",),
        "Shows a compaction before it is made: the cut, the draft and what would be lost.",
        hint="compact preview",
        title="Compact preview",
        argument="[focus]",
    ),
    SlashCommand(
        "context",
        ("f4",),
        "What fills the window, by category and by item, and what can be done about it. Costs nothing.",
        hint="context",
        title="Context",
        aliases=("tokens",),
    ),
    SlashCommand(
        "strategy",
        help="How the next compactions are made; without a name, you choose from a list.",
        title="Switch the compaction strategy",
        argument="[name]",
        works=idle,
    ),
    SlashCommand(
        "diff",
        help="What write and edit changed in this session, file by file, from how it was to how it is.",
        title="Changed files",
        aliases=("changes",),
    ),
    SlashCommand(
        "undo",
        help="Takes back the newest compaction, clear or rewind: the model has again what it had before.",
        title="Undo the last compaction, clear or rewind",
        works=idle,
    ),
    SlashCommand(
        "rewind",
        help="Goes back to before a prompt or a step: context, files, or both. Esc twice on an empty prompt.",
        title="Rewind",
        aliases=("checkpoint", "restore"),
    ),
    SlashCommand(
        "tree",
        help="Draws the branches that rewinds, edited prompts and forks have left, and goes to any of them.",
        title="Branches",
        aliases=("branches",),
    ),
    SlashCommand(
        "clear",
        help="Empties what the model has down to system prompt and pins. The history keeps everything.",
        title="Clear the context",
        works=idle,
        aliases=("reset",),
    ),
    "Transcript",
    Command(
        "prompt-older",
        ("alt+up",),
        "Scrolls the transcript to the prompt before.",
        hint="prompts",
        title="Previous prompt",
    ),
    Command(
        "prompt-newer",
        ("alt+down",),
        "Scrolls the transcript to the next prompt.",
        hint="prompts",
        title="Next prompt",
    ),
    Command(
        "page-up",
        ("pageup",),
        "Scrolls the transcript one page up, from anywhere.",
        hint="scroll",
        title="Scroll up",
    ),
    Command(
        "page-down",
        ("pagedown",),
        "Scrolls the transcript one page down, from anywhere.",
        hint="scroll",
        title="Scroll down",
    ),
    Command(
        "end",
        ("ctrl+end",),
        "Shows the end and follows it again. So does End at the end of the prompt's text.",
        title="To the end",
    ),
    SlashCommand(
        "open-tools",
        ("ctrl+o",),
        "Shows what every tool call was given and gave back, or only its one line.",
        hint="open tools",
        title="Open or close all tool calls",
        aliases=("details",),
    ),
    "Panels",
    Command(
        "complete",
        ("tab",),
        "Takes the marked completion of a /command or @file; with no list open, goes to the next panel.",
        hint="panels",
        title="Take the completion, or go to the next panel",
        palette=False,
    ),
    "Questions",
    Command(
        "allow-once",
        ("alt+y",),
        "Answers the question of a tool call: run it this time.",
        title="Allow this call once",
        works=asked,
    ),
    Command(
        "allow-always",
        ("alt+a",),
        "Answers the question of a tool call: run it, and what the question says beside always, in this "
        "session.",
        title="Always allow calls like this",
        works=asked,
    ),
    Command(
        "allow-project",
        ("alt+p",),
        "The same in every session of this folder, until /approvals revokes it.",
        title="Always allow calls like this in this project",
        works=asked,
    ),
    Command(
        "other-rule",
        ("alt+w",),
        "Shows what else always may stand for, such as exactly this command.",
        title="Mean another rule by always",
        works=lambda state: state.question is not None and len(state.question.promises) > 1,
    ),
    Command(
        "decline",
        ("alt+n",),
        "Answers the question of a tool call: do not run it, and say why.",
        title="Decline this call",
        works=asked,
    ),
    SlashCommand(
        "approvals",
        ("shift+tab",),
        "Rules and agreed files, to take back; the mode: ask, edits, sandboxed, read-only, all, plan.",
        title="Permissions",
        aliases=("permissions", "yolo", "sandbox"),
    ),
    SlashCommand(
        "plan",
        help="First a plan: until you accept it, nothing is changed. Once more shows it; `off` goes back.",
        title="Plan first",
        argument="[off]",
    ),
    SlashCommand(
        "goal",
        help="Pins what this session is for: a line that goes with every request; without a line, drops it.",
        title="Pin the goal",
        argument="[line]",
    ),
    "Program",
    Command(
        "escape",
        ("escape",),
        "Closes, leaves, cancels or stashes; the status row says which. Discards nothing.",
        title="Step outwards",
        palette=False,
    ),
    Command(
        "interrupt",
        ("ctrl+c",),
        "Copies a selection; else cancels what runs; else quits when pressed twice within 2 seconds.",
        title="Copy, cancel, quit",
        palette=False,
    ),
    SlashCommand(
        "model",
        help="Without a name, shows all, with window and price. NAME@PROVIDER asks another provider.",
        title="Switch the model",
        argument="[name]",
        works=idle,
        aliases=("models",),
    ),
    SlashCommand(
        "effort",
        help="From none to max, as far as the model has it; default: as it does by itself. It is kept, too.",
        title="How much the model thinks",
        argument="[effort]",
        aliases=("thinking", "reasoning"),
    ),
    SlashCommand(
        "provider",
        help="Chooses who runs the model: a provider with your key, a server of your own, or the built-in "
        "one.",
        title="Providers and keys",
        works=idle,
        aliases=("login", "auth", "connect", "setup"),
    ),
    SlashCommand(
        "logout",
        help="Removes the key of the provider in use from keys.toml, once you agree.",
        title="Log out",
    ),
    SlashCommand(
        "mcp",
        help="How it is with the tool servers that are set up; Enter, or a name, connects one anew.",
        title="MCP servers",
        argument="[name]",
        aliases=("tools",),
    ),
    SlashCommand(
        "skill",
        help="Which are loaded, which can be. Enter, or a name, loads one; `unload` and a name takes it out.",
        title="Skills",
        argument="[[unload] name]",
    ),
    "Sessions",
    SlashCommand(
        "sessions",
        help="Those of this folder, of all folders, of other agents: to search, resume, read, fork and tidy.",
        title="Sessions",
        aliases=("resume", "continue", "chat"),
    ),
    SlashCommand(
        "new", help="Begins a session in this folder, beside those that are open.", title="New session"
    ),
    SlashCommand(
        "tabs",
        ("ctrl+t",),
        "The sessions that are open here, and how it is with each; what runs in another one runs on.",
        title="Open sessions",
    ),
    SlashCommand(
        "close",
        help="Closes this one of several open sessions; its history is kept.",
        title="Close this session",
    ),
    SlashCommand(
        "search",
        help="Finds what was ever said in any session.",
        title="Search all sessions",
        argument="[query]",
    ),
    SlashCommand(
        "cost",
        help="Tokens, what of them came from a cache, and dollars, by model; compactions included.",
        title="Cost of this session",
        aliases=("usage", "stats"),
    ),
    SlashCommand(
        "status",
        help="Model, folder, session, window, mode, whether the sandbox holds, tool servers.",
        title="Status",
        aliases=("about", "version"),
    ),
    SlashCommand(
        "rename",
        help="Gives this session another title.",
        title="Rename this session",
        argument="TITLE",
        aliases=("title",),
    ),
    SlashCommand(
        "fork",
        help="Continues in a copy from here; this session stays as it is.",
        title="Fork this session",
        works=idle,
        aliases=("branch",),
    ),
    SlashCommand(
        "copy",
        help="To the clipboard. In the transcript, {transcript.copy} copies what is marked.",
        title="Copy the last answer",
    ),
    SlashCommand(
        "export",
        help="Writes the session to a file: Markdown, or as html, openai or foldline has it.",
        title="Export this session",
        argument="[format] [path]",
    ),
    SlashCommand(
        "init",
        help="Asks the model to look at this project and to write, or improve, its AGENTS.md.",
        title="Write AGENTS.md",
        works=idle,
    ),
    "Program",
    SlashCommand(
        "jobs",
        help="What the agent runs in the background: how it stands, what it writes; and ending it.",
        title="Background jobs",
        aliases=("tasks", "bashes", "ps", "shells"),
    ),
    SlashCommand(
        "settings",
        help="Every setting: what it is, who set it, and another value, kept in your config.toml.",
        title="Settings",
        argument="[find]",
        aliases=("config", "preferences"),
    ),
    SlashCommand(
        "theme",
        help="Switches the colour theme and keeps it; without a name, lists them.",
        title="Colour theme",
        argument="[name]",
        scope="chat",
        aliases=("themes",),
    ),
    SlashCommand(
        "help",
        ("f1",),
        "The keys of the screen in front, what works on every screen, and the slash commands.",
        title="Help",
        scope="chat",
        aliases=("h", "commands", "keys", "keybindings"),
    ),
    Command(
        "help-panel",
        ("question_mark",),
        "The same as F1, where the focus is not in a text field.",
        title="Help",
        place="panel",
        palette=False,
    ),
    Command(
        "palette",
        ("ctrl+p",),
        "Everything that can be done now, found by typing: commands, themes, models, settings, sessions.",
        hint="everything",
        title="Everything",
        palette=False,
    ),
    SlashCommand(
        "quit", (), "Ends the program; the session is on disk.", title="Quit", aliases=("exit", "q")
    ),
)

EVERYWHERE: Final = ("help", "palette", "tabs", "interrupt")
"""The chat's commands that work on every screen."""

COMMON: Final = (
    "model",
    "sessions",
    "new",
    "compact",
    "context",
    "inspector",
    "diff",
    "rewind",
    "settings",
    "help",
)
"""Those that are wanted most, which stand first where nothing was typed."""

BY_ID: Final[dict[str, Command]] = {command.id: command for command in COMMANDS}
BY_SLASH: Final[dict[str, Command]] = {name: command for command in COMMANDS for name in command.slashes}


def common_first(commands: Iterable[Command]) -> list[Command]:
    return sorted(commands, key=lambda each: COMMON.index(each.id) if each.id in COMMON else len(COMMON))


def is_everywhere(key: ScreenKey[Any]) -> bool:
    """Whether a command of the chat works on every screen."""
    return key.id in EVERYWHERE


def key_of(command: str) -> str:
    """How a sentence calls the key of a command."""
    return BY_ID[command].name


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


# --- Ctrl+C, also in `foldline --plain` ---------------------------------------------------------------

QUIT_WITHIN = 2.0
"""Seconds in which the second Ctrl+C quits."""

InterruptAction = Literal["copy", "cancel", "warn", "quit"]


def interrupt_step(
    *, running: bool, cancelling: bool, since_last: float | None, selection: bool = False
) -> InterruptAction:
    """Copy a selection; else cancel what runs; else quit at the second press, `since_last` seconds later."""
    if selection:
        return "copy"
    if running and not cancelling:
        return "cancel"
    if since_last is not None and since_last <= QUIT_WITHIN:
        return "quit"
    return "warn"
