"""Checks a command line against the bans in an agent's file, for example `Bash(git push *)`.

If it is unclear which program a command runs, the command is banned. A ban recognises a command in any
spelling. It does not recognise commands that a script runs. All functions are pure.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import takewhile

from foldline.text.harmless import escaped_line
from foldline.text.shorten import clip

from .known_commands import leading_words
from .shell_syntax import SimpleCommand, Word, read

_SHELLS = frozenset(
    (
        "ash",
        "bash",
        "dash",
        "eval",
        "fish",
        "ksh",
        "sh",
        "ssh",
        "su",
        "trap",
        "watch",
        "zsh",
    )
)
"""Programs that run their arguments or their input as command lines."""
_STARTERS = _SHELLS | frozenset(
    re.findall(
        r"\w+",
        "builtin chroot command coproc doas env exec ionice nice nohup parallel setsid stdbuf strace sudo "
        "time timeout xargs",
    )
)
"""Programs that start another program, which is named in their arguments."""
_FED_STARTERS = frozenset(("parallel", "xargs"))
"""Programs that start a command and append words from their input to it."""
_RENAMERS = frozenset(("alias", "hash", "enable"))
"""Bash builtins that redefine a name."""
_GIT_VALUES = frozenset(
    (
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--config-env",
        "--super-prefix",
        "--attr-source",
    )
)
"""Git's global options whose value is the next word (see git(1))."""
_GIT_COMMANDS = frozenset(
    re.findall(
        r"\S+",
        """
        add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout
        cherry cherry-pick clean clone column commit config count-objects describe diff diff-files diff-index
        diff-tree difftool fetch for-each-ref format-patch fsck gc grep help init log ls-files ls-remote
        ls-tree maintenance merge merge-base mergetool mv name-rev notes prune pull push range-diff rebase
        reflog remote repack replace reset restore rev-list rev-parse revert rm shortlog show show-branch
        show-ref sparse-checkout stage stash status switch symbolic-ref tag var verify-commit verify-tag
        version whatchanged worktree
        """,
    )
)
"""Git commands that no alias can replace.

Any other command may be an alias, an extension, or a plumbing command that has the effect of one of these.
"""
_SAME_COMMANDS = {"annotate": "blame", "stage": "add", "whatchanged": "log"}
NAMED = "this command runs it"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_TOKEN = re.compile(r"[\w./@%+-]+")
_STDIN = re.compile(r"\s-(?=\s+<<)")
"""Matches the argument `-` before a here-document.

The grammar (tree-sitter-bash 0.25) has no node for it.
"""
_GLOB = re.compile(r"[*?\[]")
_IN_A_FOLDER = re.compile(r'"\$\{?\w+\}?"?(?:/[\w.+-]+)*/([\w.+-]+)"?')
"""Matches a program's path that begins with a quoted variable, such as `"$VENV/bin/pytest"`."""


@lru_cache(64)
def why_banned(ban: str, command: str) -> str:
    """Return why a command line is banned, as a clause.

    Returns an empty string if it is allowed.

    Blocking, up to 0.3 s: do not call it on the event loop.

    Args:
        ban: a program and the words after it, such as `git push *` or `git push:*`.
    """
    banned = ban.replace(":*", " *").removesuffix(" *").split()
    reading = read(_STDIN.sub(" ", command))
    if reading is None:
        return (
            "this command is too long or too complex to be checked: make it "
            "shorter, or split it"
        )
    for simple_command in reading.commands:
        if reason := _reason(banned, simple_command, writes_file=bool(reading.writes)):
            return reason
    return _in_text(banned, " ".join(word.text for word in reading.others))


def _reason(banned: Sequence[str], command: SimpleCommand, *, writes_file: bool) -> str:
    """Return why a simple command is banned.

    Returns an empty string if it is allowed.

    Args:
        writes_file: whether the command line writes a file, which may be a script.
    """
    words = command.words
    if leading_words(command) and not writes_file:
        return _at(banned, words, 0)  # a known command starts no other program
    program = _name(words[0])
    if program is None:
        return _unknown(words[0])
    if program in _RENAMERS:
        return f"`{program}` may give a name another meaning"
    starts = program in _STARTERS or any(
        word.text.startswith(("-exec", "-ok")) for word in words
    )
    for index, word in enumerate(words):
        name = _name(word)
        if starts and name is None and not _is_argument(words, index):
            return _unknown(word)
        reason = _at(banned, words, index)
        if not reason and name in _SHELLS and (starts or command.is_fed):
            reason = _in_shell(banned, words[index:])
        if not reason and index:
            reason = _in_text(banned, word.text)
        if reason:
            return reason
    return ""


def _is_argument(words: Sequence[Word], index: int) -> bool:
    """Return whether an unclear word cannot be the name of a program.

    Examples are `A=$B` after `env`, and `{}` after the program that `find` or `xargs` starts.
    """
    before = words[index - 1].text
    text = words[index].text
    if text == "{}":
        return before == "-I" or not before.startswith(("-", "{}"))
    return text == "-I{}" or _ASSIGNED.match(text) is not None


def _in_shell(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Return why starting a shell with these arguments is banned.

    Returns an empty string if it is allowed.
    """
    lines = [word for word in words[1:] if not word.text.startswith(("-", "+"))]
    if not lines:
        return f"`{words[0].text}` reads its commands from elsewhere"
    reasons = (why_banned(" ".join(banned), line.text) for line in lines)
    return next(filter(None, reasons), "")


def _in_text(banned: Sequence[str], text: str) -> str:
    """Return why a string that a program may execute is banned, for example `os.system('git push')`."""
    tokens = [Word(token) for token in _TOKEN.findall(text)]
    if len(tokens) > 1 and any(
        _at(banned, tokens, index) == NAMED for index in range(len(tokens))
    ):
        return NAMED
    return ""


def _at(banned: Sequence[str], words: Sequence[Word], index: int) -> str:
    """Return why the program at this index is banned.

    The words after it are its arguments. Returns an empty string if it is allowed.
    """
    program = banned[0].rpartition("/")[2].casefold()
    name = _name(words[index]) or ""
    arguments = list(words[index + 1 :])
    if name.startswith("git-") and program == "git":
        arguments.insert(0, Word(name.removeprefix("git-")))
        name = "git"
    if not name or not fnmatchcase(name, program):
        return ""
    if len(banned) == 1:
        return NAMED
    find_reason = _git_reason if name == "git" else _words_reason
    reason = find_reason(banned[1:], arguments)
    if reason or len(arguments) >= len(banned) - 1:
        return reason
    if any(_name(word) in _FED_STARTERS for word in words[:index]):
        return f"the words that `{name}` gets are not known"
    return ""


def _git_reason(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Return why git is banned with these arguments, skipping its global options."""
    if banned[0].startswith("-"):
        return _words_reason(banned, words)
    pending = list(words)
    while pending and pending[0].text.startswith("-"):
        count = 2 if pending[0].text in _GIT_VALUES else 1
        del pending[:count]
    if not pending:
        return ""
    command, *arguments = pending
    if _is_unclear(command):
        return _unknown(command)
    name = _SAME_COMMANDS.get(command.text, command.text)
    if fnmatchcase(name, _SAME_COMMANDS.get(banned[0], banned[0])):
        return _words_reason(banned[1:], arguments) if banned[1:] else NAMED
    if name in _GIT_COMMANDS:
        return ""
    return f"`git {_shown(command)}` may do the same"


def _words_reason(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Return why a program is banned with these arguments.

    Returns an empty string if it is allowed. The program is banned if all banned words occur, or may occur,
    among the arguments. Options may be in any order. The other words must be in the order of the ban.
    """
    options = [word for word in banned if word.startswith("-")]
    plain = [word for word in banned if not word.startswith("-")]
    pending = iter(words)
    has_options = all(_has_option(option, words) for option in options)
    if has_options and all(
        any(_is_same(word.text, name) for word in pending) for name in plain
    ):
        return NAMED
    if not options and len(plain) == 1:  # a subcommand, which only options can precede
        words = list(
            takewhile(
                lambda word: _is_unclear(word) or word.text.startswith("-"), words
            )
        )
    unclear = next(filter(_is_unclear, words), None)
    return _unknown(unclear) if unclear else ""


def _is_same(text: str, banned: str) -> bool:
    """Return whether a word matches the banned word or abbreviates it, as in `npm pub`."""
    if fnmatchcase(text, banned):
        return True
    return len(text) > 1 and text.isalpha() and banned.startswith(text)


def _has_option(banned: str, words: Sequence[Word]) -> bool:
    """Return whether an option is given in any spelling: `-rf`, `-r -f` or `--recursive`."""
    options = [
        word.text.partition("=")[0] for word in words if word.text.startswith("-")
    ]
    long = [option for option in options if option.startswith("--")]
    letters = set(
        "".join(option[1:] for option in options if option not in long).replace(
            "R", "r"
        )
    )
    if banned in options:
        return True
    if banned.startswith("--"):
        return banned[2:3] in letters or any(
            option != "--" and banned.startswith(option) for option in long
        )
    return letters.union(option[2:3] for option in long).issuperset(
        banned[1:].replace("R", "r")
    )


def _name(word: Word) -> str | None:
    """Return the name of the program that a word would start, if it can be determined."""
    text = word.text
    if _is_unclear(word):
        in_folder = _IN_A_FOLDER.fullmatch(text)
        if in_folder is None:
            return None
        text = in_folder[1]
    return text.rpartition("/")[2].casefold().removesuffix(".exe")


def _is_unclear(word: Word) -> bool:
    return word.kind in ("unclear", "output") or (
        word.kind == "pattern" and bool(_GLOB.search(word.text))
    )


def _unknown(word: Word) -> str:
    if not word.text:
        return "its output may be the command"
    return f"the value of `{_shown(word)}` is not known"


def _shown(word: Word) -> str:
    return clip(escaped_line(word.text), 60)
