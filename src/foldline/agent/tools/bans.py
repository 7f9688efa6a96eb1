"""Bans of an agent's file, `Bash(git push *)`: whether a command line is, or may be, a banned command.

A command that cannot be determined is banned. A ban stops a model that means well, in whatever spelling: a
script that the command starts may run what it likes. Pure.
"""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import takewhile

from foldline.context.digest import clip

from .known_commands import leading_words
from .shell_syntax import SimpleCommand, Word, read
from .text import one_line

_SHELLS = frozenset(("ash", "bash", "dash", "eval", "fish", "ksh", "sh", "ssh", "su", "trap", "watch", "zsh"))
"""Run their words as command lines of their own."""
_STARTERS = _SHELLS | frozenset(
    re.findall(
        r"\w+",
        "builtin chroot command coproc doas env exec ionice nice nohup parallel setsid stdbuf strace sudo "
        "time timeout xargs",
    )
)
"""Run what their words name."""
_FED_STARTERS = frozenset(("parallel", "xargs"))
"""Read more words for it from their input."""
_RENAMERS = frozenset(("alias", "hash", "enable"))
"""Builtins of bash that give a name another meaning."""
_GIT_VALUES = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source")
)
"""Global options of git that take the next word: git(1)."""
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
"""Git's own commands that do what they are called: no alias takes their place. Any other may be an alias, an
extension, or plumbing that does the work of one of these."""
_SAME_COMMANDS = {"annotate": "blame", "stage": "add", "whatchanged": "log"}
_NAMED = "this command runs it"
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_TOKEN = re.compile(r"[\w./@%+-]+")
_STDIN = re.compile(r"\s-(?=\s+<<)")
"""The argument `-` before a here-document, which the grammar (tree-sitter-bash 0.25) has no node for."""
_GLOB = re.compile(r"[*?\[]")
_IN_A_FOLDER = re.compile(r'"\$\{?\w+\}?"?(?:/[\w.+-]+)*/([\w.+-]+)"?')
"""A program in a folder that a quoted variable names: `"$VENV/bin/pytest"`."""


@lru_cache(64)
def why_banned(ban: str, command: str) -> str:
    """Why a command line is banned, as the end of a sentence; empty if it is not.

    Args:
        ban: a program and the words after it, `git push *` or `git push:*`.

    May take 0.3 s: call it off the event loop.
    """
    banned = ban.replace(":*", " *").removesuffix(" *").split()
    reading = read(_STDIN.sub(" ", command))
    if reading is None:
        return "this command is too long or too unusual to be checked: make it shorter, or split it"
    rest = " ".join(word.text for word in reading.others)
    reasons = (_reason(banned, each, is_kept=bool(reading.writes)) for each in reading.commands)
    return next(filter(None, reasons), "") or _in_text(banned, rest)


def _reason(banned: Sequence[str], command: SimpleCommand, *, is_kept: bool) -> str:
    """Why a simple command is banned. `is_kept`: what it prints may end up in a script."""
    words = command.words
    if leading_words(command) and not is_kept:
        return _at(banned, words, 0)  # it starts no other program
    first = _name(words[0])
    if first is None:
        return _untold(words[0])
    if first in _RENAMERS:
        return f"what `{first}` makes of names is not known"
    starts = first in _STARTERS or any(word.text.startswith(("-exec", "-ok")) for word in words)
    for place, word in enumerate(words):
        name = _name(word)
        if starts and name is None and not _is_argument(words, place):
            return _untold(word)
        reason = _at(banned, words, place)
        if not reason and name in _SHELLS and (starts or command.is_fed):
            reason = _in_shell(banned, words[place:])
        if not reason and place:
            reason = _in_text(banned, word.text)
        if reason:
            return reason
    return ""


def _is_argument(words: Sequence[Word], place: int) -> bool:
    """Whether an unclear word is no program: `A=$B` of `env`; or `{}` of `find` and `xargs`, after one."""
    before, text = words[place - 1].text, words[place].text
    if text == "{}":
        return before == "-I" or not before.startswith(("-", "{}"))
    return text == "-I{}" or _ASSIGNED.match(text) is not None


def _in_shell(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Why a shell with these words is banned."""
    lines = [word for word in words[1:] if not word.text.startswith(("-", "+"))]
    if not lines:
        return f"`{words[0].text}` reads its commands from elsewhere"
    return next(filter(None, (why_banned(" ".join(banned), line.text) for line in lines)), "")


def _in_text(banned: Sequence[str], text: str) -> str:
    """Why a text is banned that a program may run: `import os; os.system('git push')`."""
    tokens = [Word(token) for token in _TOKEN.findall(text)]
    if len(tokens) < 2:
        return ""
    return _NAMED if any(_at(banned, tokens, place) == _NAMED for place in range(len(tokens))) else ""


def _at(banned: Sequence[str], words: Sequence[Word], place: int) -> str:
    """Why the program at this place, with the words after it, is banned."""
    program = banned[0].rpartition("/")[2].casefold()
    name = _name(words[place]) or ""
    first = []
    if name.startswith("git-") and program == "git":
        first = [Word(name.removeprefix("git-"))]
        name = "git"
    if not name or not fnmatchcase(name, program):
        return ""
    if len(banned) == 1:
        return _NAMED
    rest = [*first, *words[place + 1 :]]
    reason = _git_reason(banned[1:], rest) if name == "git" else _words_reason(banned[1:], rest)
    is_open = len(rest) < len(banned) - 1 and any(_name(word) in _FED_STARTERS for word in words[:place])
    return reason or (f"which words `{name}` is given is not known" if is_open else "")


def _git_reason(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Why git with these words is banned: its command stands behind its global options."""
    if banned[0].startswith("-"):
        return _words_reason(banned, words)
    pending = list(words)
    while pending and pending[0].text.startswith("-"):
        taken = 2 if pending[0].text in _GIT_VALUES else 1
        del pending[:taken]
    if not pending:
        return ""
    command, *rest = pending
    if _is_unclear(command):
        return _untold(command)
    name = _SAME_COMMANDS.get(command.text, command.text)
    if fnmatchcase(name, _SAME_COMMANDS.get(banned[0], banned[0])):
        return _words_reason(banned[1:], rest) if banned[1:] else _NAMED
    return "" if name in _GIT_COMMANDS else f"`git {_shown(command)}` may do the same"


def _words_reason(banned: Sequence[str], words: Sequence[Word]) -> str:
    """Why a program is banned with these words: all the banned ones are among them, the plain ones in order;
    or so they may be."""
    options = [word for word in banned if word.startswith("-")]
    plain = [word for word in banned if not word.startswith("-")]
    pending = iter(words)
    if all(_has_option(option, words) for option in options) and all(
        any(_is_same(word.text, wanted) for word in pending) for wanted in plain
    ):
        return _NAMED
    if not options and len(plain) == 1:  # the command of a program that has several: it comes first
        words = [*takewhile(lambda word: _is_unclear(word) or word.text.startswith("-"), words)]
    unclear = next(filter(_is_unclear, words), None)
    return _untold(unclear) if unclear else ""


def _is_same(text: str, banned: str) -> bool:
    """Whether a word is the banned one, also if the program takes abbreviations: `npm pub`."""
    return fnmatchcase(text, banned) or (len(text) > 1 and text.isalpha() and banned.startswith(text))


def _has_option(banned: str, words: Sequence[Word]) -> bool:
    """Whether an option is among the words in one of its spellings: `-rf`, `-fr`, `-r -f`, `--recursive`."""
    options = [word.text.partition("=")[0] for word in words if word.text.startswith("-")]
    long = [option for option in options if option.startswith("--")]
    letters = set("".join(option[1:] for option in options if option not in long).replace("R", "r"))
    if banned in options:
        return True
    if banned.startswith("--"):
        return banned[2:3] in letters or any(option != "--" and banned.startswith(option) for option in long)
    return letters.union(option[2:3] for option in long).issuperset(banned[1:].replace("R", "r"))


def _name(word: Word) -> str | None:
    """The name of the program that a word would start; None if it cannot be determined."""
    text = word.text
    if _is_unclear(word):
        in_folder = _IN_A_FOLDER.fullmatch(text)
        if in_folder is None:
            return None
        text = in_folder[1]
    return text.rpartition("/")[2].casefold().removesuffix(".exe")


def _is_unclear(word: Word) -> bool:
    return word.kind in ("unclear", "output") or (word.kind == "pattern" and bool(_GLOB.search(word.text)))


def _untold(word: Word) -> str:
    return f"what `{_shown(word)}` stands for is not known" if word.text else "its output may be the command"


def _shown(word: Word) -> str:
    return clip(one_line(word.text), 60)
