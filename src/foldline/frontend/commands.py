"""The chat commands.

They are the source of keys, slash commands, palette, help, hints and docs.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from foldline.frontend.key_names import listed
from foldline.frontend.keymap import KeyTable, Place, ScreenKey, table
from foldline.frontend.state import ChatState

if TYPE_CHECKING:
    from foldline.agent.project.discovery import Extension

CHAT: Final = "chat"
"""Name of the chat's key table."""

Scope = Literal["chat", "app"]
"""The part of the program that handles a command.

`chat`: the chat screen; `app`: the app, which gets a `CommandInvoked` message.
"""


@dataclass(frozen=True, slots=True)
class ChatCommand(ScreenKey[ChatState]):
    """A command of the chat."""

    place: Place = "anywhere"
    scope: Scope = "chat"
    argument: str = ""
    """Argument of the slash command, as displayed.

    It is in `[…]` if it is optional.
    """

    @property
    def slash(self) -> str:
        """Name of the slash command without the `/`; empty for commands without one."""
        return ""

    @property
    def slashes(self) -> tuple[str, ...]:
        """All names of the slash command, without the `/`."""
        return ()

    @property
    def usage(self) -> str:
        """The slash command with its argument: `/compact [focus]`; empty without a slash command."""
        return f"/{self.slash} {self.argument}".rstrip() if self.slash else ""

    @property
    def explained(self) -> str:
        """The description, including the other names of the slash command."""
        aliases = [f"/{name}" for name in self.slashes[1:]]
        if not aliases:
            return self.help_text
        return f"{self.help_text} Also {listed(aliases)}."


@dataclass(frozen=True, slots=True)
class SlashCommand(ChatCommand):
    """A slash command, which may also have a key."""

    scope: Scope = "app"
    aliases: tuple[str, ...] = ()
    """Names of the same command in other agents."""

    @property
    def slash(self) -> str:
        return self.id

    @property
    def slashes(self) -> tuple[str, ...]:
        return (self.id, *self.aliases)


def own_command(custom: "Extension") -> SlashCommand:
    """Return the slash command for a skill or a command file."""
    return SlashCommand(
        custom.name,
        (),
        custom.description,
        title=custom.description,
        argument=custom.hint,
    )


def idle(state: ChatState) -> bool:
    return not state.busy


def asks_approval(state: ChatState) -> bool:
    return state.question is not None and not state.asks_choice


COMMANDS: Final[KeyTable[ChatCommand]] = table(
    CHAT,
    "Prompt",
    ChatCommand(
        "send",
        ("enter",),
        "Sends the prompt, or queues it while the agent works. On a queued prompt: swaps it with your text.",
        title="Send the prompt",
        place="prompt",
    ),
    ChatCommand(
        "newline",
        ("ctrl+j", "shift+enter", "alt+enter"),
        "Starts a new line in the prompt. A backslash followed by Enter does the same.",
        title="New line",
        place="prompt",
    ),
    ChatCommand(
        "recall-older",
        ("up",),
        "On the first line: recalls queued prompts, or earlier sent or stashed ones if none are queued.",
        title="Older prompt",
        place="prompt",
    ),
    ChatCommand(
        "recall-newer",
        ("down",),
        "On the last line: goes back towards the text you were writing.",
        title="Newer prompt",
        place="prompt",
    ),
    ChatCommand(
        "queue-up",
        ("alt+shift+up",),
        "Moves the selected queued prompt up, so that it is sent earlier.",
        title="Move queued prompt up",
        place="prompt",
    ),
    ChatCommand(
        "queue-down",
        ("alt+shift+down",),
        "Moves the selected queued prompt down, so that it is sent later.",
        title="Move queued prompt down",
        place="prompt",
    ),
    ChatCommand(
        "queue-delete",
        ("delete",),
        "Removes the selected prompt from the queue and stashes it.",
        title="Stash a queued prompt",
        place="prompt",
    ),
    ChatCommand(
        "search-prompts",
        ("ctrl+r",),
        "Finds an earlier prompt from this session, or from another session in this folder.",
        title="Search earlier prompts",
    ),
    ChatCommand(
        "paste-picture",
        ("alt+v",),
        "Attaches the picture from the system clipboard. Picture files that you paste or drag are attached, "
        "too.",
        title="Paste a picture",
    ),
    ChatCommand(
        "editor",
        ("ctrl+g",),
        "Opens the prompt in $VISUAL or $EDITOR, with long pastes expanded. The text that you save becomes "
        "the prompt.",
        title="Write the prompt in an editor",
    ),
    SlashCommand(
        "retry",
        ("alt+r",),
        "Continues a turn that failed or was stopped: sends the same request again, without a new prompt.",
        hint="try again",
        title="Try again",
        works=lambda state: state.unanswered and not state.busy,
    ),
    ChatCommand(
        "background",
        ("ctrl+b",),
        "Sends a subagent to the background: the one at the transcript cursor, or the one that started "
        "first. The agent continues, and receives the answer at a later step.",
        hint="to the background",
        title="Send a subagent to the background",
        scope="app",
        works=lambda state: bool(state.awaited),
    ),
    "Context",
    SlashCommand(
        "inspector",
        ("f2",),
        "Shows all entries, the next request and the files side by side.",
        hint="inspector",
        title="Inspector",
    ),
    SlashCommand(
        "compact",
        help="Compacts the older part of the conversation into a summary now. A focus names what to "
        "emphasise.",
        title="Compact the context",
        argument="[--preview] [focus]",
        works=lambda state: state.compacting is None,
    ),
    ChatCommand(
        "preview",
        ("f3",),
        "Shows a compaction before it is applied: the cut, the draft and the facts that would be lost.",
        hint="compact preview",
        title="Compact preview",
        scope="app",
    ),
    SlashCommand(
        "context",
        ("f4",),
        "Shows what fills the window, by category and by item, in the Inspector. Costs nothing.",
        hint="context",
        title="Context",
    ),
    SlashCommand(
        "strategy",
        help="Sets how the next compactions are made. Without a name, lists the strategies.",
        title="Switch the compaction strategy",
        argument="[name]",
        works=idle,
    ),
    SlashCommand(
        "diff",
        help="Shows the changes that the write and edit tools made in this session, file by file.",
        title="Changed files",
    ),
    SlashCommand(
        "undo",
        help="Undoes the newest compaction, clear or rewind, which restores the earlier context.",
        title="Undo the last compaction, clear or rewind",
        works=idle,
    ),
    SlashCommand(
        "rewind",
        help="Goes back to the point before a prompt or step, or to the end of another branch: context, "
        "files, or both. Pressing Esc twice in an empty prompt does the same.",
        title="Rewind",
    ),
    SlashCommand(
        "clear",
        help="Clears the context, except for the system prompt and pins. The history keeps everything.",
        title="Clear the context",
        works=idle,
        aliases=("reset",),
    ),
    "Transcript",
    ChatCommand(
        "prompt-older",
        ("alt+up",),
        "Scrolls the transcript to the previous prompt.",
        hint="prompts",
        title="Previous prompt",
    ),
    ChatCommand(
        "prompt-newer",
        ("alt+down",),
        "Scrolls the transcript to the next prompt.",
        hint="prompts",
        title="Next prompt",
    ),
    ChatCommand(
        "page-up",
        ("pageup",),
        "Scrolls the transcript one page up, from anywhere.",
        hint="scroll",
        title="Scroll up",
    ),
    ChatCommand(
        "page-down",
        ("pagedown",),
        "Scrolls the transcript one page down, from anywhere.",
        hint="scroll",
        title="Scroll down",
    ),
    ChatCommand(
        "end",
        ("ctrl+end",),
        "Goes to the end of the transcript and follows it. End does the same if the cursor is at the end of "
        "the prompt.",
        title="Go to the end",
    ),
    ChatCommand(
        "open-tools",
        ("ctrl+o",),
        "Shows the arguments and results of all tool calls, or one line for each.",
        hint="open tools",
        title="Expand or collapse all tool calls",
        scope="app",
    ),
    "Panels",
    ChatCommand(
        "complete",
        ("tab",),
        "Accepts the selected completion of a /command or @file. Without a list, goes to the next panel.",
        hint="panels",
        title="Accept the completion, or go to the next panel",
        palette=False,
    ),
    "Questions",
    ChatCommand(
        "allow-once",
        ("alt+y",),
        "Allows this tool call once.",
        title="Allow this call once",
        works=asks_approval,
    ),
    ChatCommand(
        "allow-always",
        ("alt+a",),
        'Allows this tool call and, for this session, all calls under the rule shown beside "always".',
        title="Always allow calls like this",
        works=asks_approval,
    ),
    ChatCommand(
        "allow-project",
        ("alt+p",),
        "Allows the same calls in every session in this folder, until /approvals revokes the rule.",
        title="Always allow calls like this in this project",
        works=asks_approval,
    ),
    ChatCommand(
        "other-rule",
        ("alt+w",),
        'Shows the other rules that "always" can create, such as a rule for exactly this command.',
        title='Change what "always" covers',
        works=lambda state: (
            state.question is not None and len(state.question.promises) > 1
        ),
    ),
    ChatCommand(
        "decline",
        ("alt+n",),
        "Declines this tool call, and asks you for the reason.",
        title="Decline this call",
        works=asks_approval,
    ),
    SlashCommand(
        "approvals",
        ("shift+tab",),
        "Sets the mode (ask, edits, sandboxed, read-only, all, plan), and revokes rules and trusted files.",
        title="Permissions",
        aliases=("permissions",),
    ),
    SlashCommand(
        "plan",
        help="Starts plan mode, in which nothing is changed until you accept a plan, or shows the plan. "
        "`off` ends plan mode.",
        title="Plan first",
        argument="[off]",
    ),
    SlashCommand(
        "goal",
        help="Pins the goal of this session, a line that is sent with every request. Without a line, removes "
        "it.",
        title="Pin the goal",
        argument="[line]",
    ),
    "Program",
    ChatCommand(
        "escape",
        ("escape",),
        "Closes, leaves, cancels or stashes; the status row says which. Discards nothing.",
        title="Close, cancel or stash",
        palette=False,
    ),
    ChatCommand(
        "interrupt",
        ("ctrl+c",),
        "Copies the selection. Otherwise cancels the running work, or quits if pressed twice within 2 "
        "seconds.",
        title="Copy, cancel, quit",
        palette=False,
    ),
    SlashCommand(
        "model",
        help="Switches to another model, or to NAME@PROVIDER. Without a name, lists models with window and "
        "price.",
        title="Switch the model",
        argument="[name]",
        works=idle,
    ),
    SlashCommand(
        "effort",
        help="Sets the thinking effort, from none to max or default, if the model supports it. Saves the "
        "choice.",
        title="Thinking effort",
        argument="[effort]",
    ),
    SlashCommand(
        "provider",
        help="Chooses what runs the model: a provider with your key, your own server, or the built-in model. "
        "`logout` removes the key of the current provider from keys.toml.",
        title="Providers and keys",
        argument="[logout]",
        works=idle,
        aliases=("login",),
    ),
    SlashCommand(
        "mcp",
        help="Shows the state of the configured tool servers. Enter, or a name, reconnects one.",
        title="MCP servers",
        argument="[name]",
    ),
    SlashCommand(
        "skill",
        help="Lists loaded and available skills. Enter, or a name, loads one; `unload` with a name unloads "
        "it.",
        title="Skills",
        argument="[[unload] name]",
    ),
    "Sessions",
    SlashCommand(
        "sessions",
        help="Lists the sessions in this folder, in all folders and from other agents: search, resume, read "
        "or fork. With a query, searches the text of all sessions.",
        title="Sessions",
        argument="[query]",
        aliases=("resume", "continue"),
    ),
    SlashCommand(
        "new",
        help="Starts a session in this folder. Other sessions stay open.",
        title="New session",
    ),
    ChatCommand(
        "tabs",
        ("ctrl+t",),
        "Lists the open sessions with their state, and switches between them. Work in the others continues.",
        title="Open sessions",
        scope="app",
    ),
    SlashCommand(
        "status",
        help="Shows model, folder, session, window, mode, sandbox, tool servers, tokens and cost by model.",
        title="Status",
        aliases=("cost", "usage", "stats"),
    ),
    SlashCommand(
        "rename",
        help="Changes the title of this session.",
        title="Rename this session",
        argument="TITLE",
    ),
    SlashCommand(
        "fork",
        help="Copies this session, and continues in the copy.",
        title="Fork this session",
        works=idle,
    ),
    SlashCommand(
        "copy",
        help="Copies the last answer to the clipboard. In the transcript, {transcript.copy} copies the "
        "entry at the cursor.",
        title="Copy the last answer",
    ),
    SlashCommand(
        "export",
        help="Writes the session to a file in the format markdown, html, openai or foldline.",
        title="Export this session",
        argument="[format] [path]",
    ),
    SlashCommand(
        "init",
        help="Asks the model to read this project and to write or improve its AGENTS.md.",
        title="Write AGENTS.md",
        works=idle,
    ),
    "Program",
    SlashCommand(
        "jobs",
        help="Lists the agent's background jobs with state and output, and can stop them.",
        title="Background jobs",
        aliases=("tasks",),
    ),
    SlashCommand(
        "settings",
        help="Shows every setting with its origin, and saves new values in your config.toml.",
        title="Settings",
        argument="[find]",
        aliases=("config",),
    ),
    SlashCommand(
        "theme",
        help="Switches the colour theme and saves the choice. Without a name, lists the themes.",
        title="Colour theme",
        argument="[name]",
        scope="chat",
    ),
    SlashCommand(
        "help",
        ("f1",),
        "Shows the keys of the current screen, the keys that work everywhere, and the slash commands.",
        title="Help",
        scope="chat",
    ),
    ChatCommand(
        "help-panel",
        ("question_mark",),
        "Opens help, like F1, if the focus is not in a text field.",
        title="Help",
        place="panel",
        palette=False,
    ),
    ChatCommand(
        "palette",
        ("ctrl+p",),
        "Finds any command, theme, model, setting or session by typing.",
        hint="everything",
        title="Command palette",
        palette=False,
    ),
    SlashCommand(
        "quit",
        (),
        "Quits Foldline. The session is saved.",
        title="Quit",
        aliases=("exit",),
    ),
)

EVERYWHERE: Final = ("help", "palette", "tabs", "interrupt")
"""Chat commands that work on every screen."""

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
"""The most common commands.

They are listed first before the user has typed anything.
"""

BY_ID: Final[dict[str, ChatCommand]] = {command.id: command for command in COMMANDS}
BY_SLASH: Final[dict[str, ChatCommand]] = {
    name: command for command in COMMANDS for name in command.slashes
}


def common_first(commands: Iterable[ChatCommand]) -> list[ChatCommand]:
    order = {id: number for number, id in enumerate(COMMON)}
    return sorted(commands, key=lambda command: order.get(command.id, len(COMMON)))


def is_everywhere(key: ScreenKey[Any]) -> bool:
    """Whether a chat command works on every screen."""
    return key.id in EVERYWHERE


def key_of(command: str) -> str:
    """Return the name of a command's key for use in sentences."""
    return BY_ID[command].name


def ids(scope: Scope) -> frozenset[str]:
    """Return the ids of the commands handled in this scope.

    Commands of the prompt are left out.
    """
    return frozenset(
        command.id
        for command in COMMANDS
        if command.scope == scope and command.place != "prompt"
    )


def check_handlers(handlers: Iterable[str], scope: Scope) -> None:
    """Check that each command has a handler, and that each handler has a command.

    Raises:
        LookupError: A handler is missing, or its command does not exist.
    """
    commands = ids(scope)
    missing = commands.difference(handlers)
    unknown = frozenset(handlers) - commands
    if missing or unknown:
        raise LookupError(
            f"{scope} handlers missing: {sorted(missing)}, unknown: {sorted(unknown)}"
        )


# --- Ctrl+C, also in `foldline --plain` ---------------------------------------------------------------

QUIT_WITHIN = 2.0
"""Seconds within which a second Ctrl+C quits."""

InterruptAction = Literal["copy", "cancel", "warn", "quit"]


def interrupt_step(
    *,
    running: bool,
    cancelling: bool,
    since_last: float | None,
    selection: bool = False,
) -> InterruptAction:
    """Return the effect of Ctrl+C.

    The effect is one of: copy a selection, cancel running work, warn, or quit on the second press.

    `since_last` is the time since the first press in seconds, or None if this is the first press.
    """
    if selection:
        return "copy"
    if running and not cancelling:
        return "cancel"
    if since_last is not None and since_last <= QUIT_WITHIN:
        return "quit"
    return "warn"
