"""Which paths lie in the working folder, and which changes act without anybody running them.

Whether a shell command stays inside is read off its words: a hint for approvals, and no wall, for a program
opens what it likes. The unclear counts as outside. What runs at the user's word (tests, builds, scripts) is
code like any other. An edit asks each time, whatever was allowed, if its file may act by itself: hidden
files, of which a few are known to be inert, instructions of agents, and what git and Foldline are run from.
"""

import difflib
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from foldline.data import config_dir, real_path, typed_path
from foldline.files import is_folder, is_there, listed_at
from foldline.history import data_home
from foldline.programs import find_program, own_places, skipped_program, trusted_environment

from ..discovery import up_to_top
from ..sandbox_home import is_private, private_entries
from .base import ToolContext, ToolFailure, named
from .known_commands import leading_words
from .process import environment
from .shell_syntax import SimpleCommand, Word, read
from .tree import files_below

_LOOKED_AT = 20_000
"""How many files are looked through for one of the same name before the search for a suggestion ends."""


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder after all symbolic links are followed. Where they cannot be, it does
    not."""
    try:
        return Path(real_path(path)).is_relative_to(real_path(folder))
    except OSError:
        return False


def is_open(real: Path, folder: Path) -> bool:
    """Whether a path without links lies in a folder, and is not among what is kept there: see `kept_in`."""
    return real.is_relative_to(real_path(folder)) and not kept_in(folder)(real)


def kept_in(folder: Path) -> Callable[[Path], bool]:
    """Return a test for paths that are no part of the work in this folder.

    These are Foldline's own data and the private entries of a home folder in it. Paths are without links."""
    real, home = Path(real_path(folder)), Path(real_path(typed_path("~")))
    places: list[Path | str] = [data_home(), config_dir(os.environ)]
    has_home = home.is_relative_to(real)
    if has_home:
        places += filter(os.path.islink, private_entries(home))
    kept = [
        place for place in map(Path, map(real_path, places)) if place != real and place.is_relative_to(real)
    ]
    return lambda path: any(map(path.is_relative_to, kept)) or (has_home and is_private(path, home))


def missing(path: Path, context: ToolContext) -> ToolFailure:
    """The failure for a path that does not exist, with the nearest names that do. Reads the disk."""
    near = [name for name in near_names(path, context) if name != named(path, context)]  # not in UTF-8
    hint = f" Did you mean {' or '.join(near)}?" if near else " Use `glob` or `ls` to find the right path."
    return ToolFailure(f"{named(path, context)} does not exist.{hint}", brief="not found ✗")


def near_names(path: Path, context: ToolContext) -> list[str]:
    """Up to three existing paths like this one: like-named neighbours, else the same name elsewhere."""
    try:
        with listed_at(context.real(path).parent) as folder:
            neighbours = sorted(os.listdir(folder))  # noqa: PTH208 - `Path` knows no descriptors
    except OSError:
        neighbours = []
    by_form = {name.casefold(): name for name in neighbours}
    close = difflib.get_close_matches(path.name.casefold(), by_form, n=3, cutoff=0.6)
    if close:
        return [named(path.parent / by_form[name], context) for name in close]
    files = islice(files_below(context.cwd), _LOOKED_AT)
    return [named(found, context) for found in files if os.path.basename(found) == path.name][:3]  # noqa: PTH119


_UNCLEAR = re.compile(r"[$`{}]")
"""What a shell, or a program, makes something else of that we do not work out."""
_PIECE = re.compile(r"[\w./+%~*?\[\]^-]+")
"""What may be one of several paths in a word: of `--out=a`, `a:b`, `open('a')`."""
_BETWEEN_PATHS = re.compile(r"[^\w./+%~*?\[\]^-]")
_MOST_PLACES = 1_000
"""In one word at which a path may begin; what has more is a text of its own, or a program."""
_ABOVE = re.compile(r"\.[*?\[]")
"""Begins a name that is expanded to others of which the folder above, `..`, is one."""
_MOVES = ("cd", "pushd", "popd")
_NOWHERE = "/dev/null"


def command_inside(command: str, cwd: Path) -> bool:
    """Whether no word of a command leads out of a folder, and nothing that acts by itself is written. Links
    are followed, `~` and variables are not. Asks git where it writes: call it off the event loop."""
    reading = read(command)
    return (
        reading is not None
        and all(_stays(each, cwd) for each in reading.commands)
        and all(_is_clear(word) and _word_inside(word.text, cwd) for word in reading.others)
        and all(may_be_changed(cwd / target, cwd) for target in reading.writes)
    )


def _stays(command: SimpleCommand, cwd: Path) -> bool:
    """Whether a command stays where it is; of one we know, `$` in quotes is nothing but a sign."""
    known, texts = bool(leading_words(command)), [word.text for word in command.words]
    follows = [*texts[1:], "-"]
    if any(
        word in _MOVES and (after == "-" or word == "popd")
        for word, after in zip(texts, follows, strict=True)
    ):
        return False  # to a folder that is not named
    arguments = command.words[1:] if texts[0].startswith("/") else command.words
    return all((known or _is_clear(word)) and _word_inside(word.text, cwd) for word in arguments)


def _is_clear(word: Word) -> bool:
    return word.kind in ("literal", "pattern") and not _UNCLEAR.search(word.text)


def _word_inside(word: str, cwd: Path) -> bool:
    is_bounded = len(_BETWEEN_PATHS.findall(word)) < _MOST_PLACES
    return is_bounded and all(_path_inside(path, cwd) for path in _paths_in(word))


def _paths_in(word: str) -> Iterator[str]:
    """Whatever in a word may be a path: each piece, and all there is from each place on where one may begin,
    for the name of a link may itself hold what stands between two paths. An option may have its value right
    behind its letter: `-I/usr`.
    """
    starts = (0, *(found.end() for found in _BETWEEN_PATHS.finditer(word)))
    for path in (*(word[start:] for start in starts), *_PIECE.findall(word)):
        if path and path != _NOWHERE:
            yield path
            if path.startswith("-"):
                yield path[2:]


def _path_inside(path: str, cwd: Path) -> bool:
    if path.startswith("~") or any(_ABOVE.match(part) for part in path.split("/")):
        return False
    try:
        return is_open(Path(real_path(cwd / path)), cwd)
    except OSError:
        return False  # its target is not known


_INERT = frozenset((".gitignore", ".gitkeep", ".keep", ".dockerignore", ".editorconfig", ".mailmap"))
"""Hidden files that no program takes orders from: lists of names, and how text is laid out."""
_FOLDERS = frozenset(
    (
        ".agents", ".foldline", ".git", ".githooks", ".husky", ".lefthook", ".ssh",
        ".vscode", ".idea", ".zed", ".devcontainer", ".direnv",
        ".claude", ".codex", ".cursor", ".gemini", ".kimi", ".kiro", ".klaude", ".opencode", ".pi", ".qwen",
        ".amazonq", ".augment", ".clinerules", ".continue", ".junie", ".roo", ".windsurf",
    )
)  # fmt: skip
_FILES = re.compile(
    r"""head  # makes a folder a repository, whose settings name programs, without any `.git`
    | hgrc  # of Mercurial
    | \.pre-commit-config\.ya?ml | \.?lefthook(-local)?\.\w+  # hooks
    | \.foldline\.toml | opencode\.jsonc? | \.mcp\.json  # of agents
    | (agents?|claude|crush|gemini|qwen|warp)(\.local|\.override)?\.md
    | \.?crush\.json | copilot-instructions\.md | .+\.instructions\.md
    | \.(cursor|windsurf|cline|roo)rules
    | \.devcontainer\.json | \.exrc | \.nvimrc | \.nvim\.lua | \.dir-locals(-2)?\.el  # of editors
    | \.envrc | (\.?mise|\.rtx)(\.local)?\.toml  # of shells, as one enters the folder
    | \.npmrc | \.yarnrc(\.yml)? | \.pnpmfile\.c?js | \.gdbinit | \.lldbinit | \.bazelrc  # name programs
    """,
    re.VERBOSE,
)
"""Names in small letters."""
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""What HFS+ does not see in names: `.g\u200cit` is `.git` there (git's own check, utf8.c)."""
_BETWEEN_WORDS = re.compile(r"[\s;|&'\"()!=]+")
_PATIENCE = 5.0
"""Seconds git may take to list its settings: a pipe may stand in place of one of their files."""
_MOST_SETTINGS = 256 * 1024
"""Bytes of settings that are looked through; what has more is nothing people wrote."""


def may_be_changed(path: Path, cwd: Path) -> bool:
    """Whether a change of this file is one inside the folder that is worked in, and nothing more. Reads the
    disk, and asks git: call it off the event loop."""
    try:
        return is_changeable(Path(real_path(path)), cwd)
    except OSError:
        return False  # its target is not known


def is_changeable(real: Path, cwd: Path) -> bool:
    """`may_be_changed`, of a path whose links were followed: they are not followed again."""
    folder = Path(real_path(cwd))
    return is_open(real, folder) and not (_acts(real, folder) or _is_named_by_git(real))


def _acts(path: Path, folder: Path) -> bool:
    above = [each for each in path.parents if each.is_relative_to(folder)]
    return (
        _may_act(path.relative_to(folder).parts)
        or any(map(path.is_relative_to, own_places([str(folder)])))
        # Of `.git`, also where the folder lies within one: a work tree never does.
        or ".git" in map(_plain, folder.parts)
        # A dangling link will do: git once wrote `HEAD` as one.
        or any(os.path.lexists(each / "HEAD") for each in above)
        or any(path.is_relative_to(target) for each in above for target in _led_to(each))
    )


def _may_act(parts: Sequence[str]) -> bool:
    """Return whether a file below the working folder may act by itself, by the names on its path."""
    if not parts:
        return False
    *folders, name = map(_plain, parts)
    is_hidden = name.startswith(".") and name not in _INERT
    return is_hidden or _FILES.fullmatch(name) is not None or any(each.startswith(".") for each in folders)


def acts_by_itself(name: str) -> bool:
    """Return whether a file or folder of this name is known to act by itself. Of `.git`, only parts do.

    For what commands make: most of their hidden folders are caches, which `_may_act` would ask about.
    """
    plain = _plain(name)
    if plain in (".git", "head"):
        return False
    return plain in _FOLDERS or _FILES.fullmatch(plain) is not None


def _led_to(folder: Path) -> Iterator[str]:
    """What links in a folder lead to whose names may act: `AGENTS.md -> rules.md`."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink() and _may_act([entry.name])]
        for link in links:
            yield real_path(link)
    except OSError:
        return


def _is_named_by_git(path: Path) -> bool:
    """Whether git's settings name this file, or a folder above it as that of hooks. Git itself is asked: some
    of its settings lie in files that others name."""
    there = next(above for above in path.parents if is_folder(above))
    top = up_to_top(there)[-1]
    if not is_there(top / ".git"):
        return False
    git = find_program("git")
    if git is None:
        return skipped_program("git") is not None  # without git, nothing acts for it
    command = [git, "-C", str(top), "config", "--null", "--list"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            env=trusted_environment(environment()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    if done.returncode or len(done.stdout) > _MOST_SETTINGS:
        return True
    return any(
        _leads_to(path, top, *each.partition("\n")[::2]) for each in os.fsdecode(done.stdout).split("\0")
    )


def _leads_to(path: Path, top: Path, key: str, value: str) -> bool:
    """Whether a setting of git does: `core.hooksPath = tools/hooks`, `core.fsmonitor = ./tools/watch`."""
    of_hooks = key == "core.hookspath"
    for word in [value] if of_hooks else _BETWEEN_WORDS.split(value):
        if of_hooks or "/" in word:
            named = top / os.path.expanduser(word)  # noqa: PTH111 - `Path.expanduser` raises for an unknown user
            if is_inside(path, named) and (of_hooks or not is_folder(named)):
                return True
    return False


def _plain(name: str) -> str:
    """As file systems see it that ignore case, skip signs, or have short names."""
    seen = _UNSEEN.sub("", name).casefold().rstrip(". ")
    return ".git" if seen == "git~1" else seen
