"""Finds skills, commands and agents on disk, nearest folder first, and reads their front matter.

Imports little: trust, which is asked before the first paint, walks up from here.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from foldline.data import config_dir, real_path, typed_path
from foldline.files import is_folder, is_there

Kind = Literal["skills", "commands", "agents", "prompts"]
"""The first three are named like the folders below Foldline's own; prompts are those of tool servers."""
KINDS: Final[Sequence[Kind]] = ("skills", "commands", "agents")

_FOLDERS: Final[Mapping[Kind, Sequence[str]]] = {
    "skills": (".agents/skills", ".claude/skills"),
    "commands": (".claude/commands", ".codex/prompts"),
    "agents": (".claude/agents",),
}
"""Where other agents look, in a project as in the user's home folder."""
SKILL_FILES: Final = ("SKILL.md", "skill.md")
PROJECT_HOOKS: Final = (".foldline/hooks.json", ".claude/settings.json", ".claude/settings.local.json")
HOOK_FILES: Final = frozenset(Path(name).name for name in PROJECT_HOOKS)
_MOST_FILES: Final = 500
"""And folders, looked at below one folder."""
_MOST_FRONT: Final = 20_000
"""Characters of front matter: a thousand times what it takes."""
_DEEPEST: Final = 50
"""Lists within lists, in front matter: PyYAML takes four times as long for twice as many."""


@dataclass(frozen=True, slots=True)
class Custom:
    """A skill, a command, an agent or a server's prompt, by its name. All but the body is clean, and stands
    on one line."""

    kind: Kind
    name: str
    description: str
    body: str = ""
    hint: str = ""
    """What may stand behind it."""
    for_model: bool = True
    """Whether the model may load it by itself."""
    path: Path = Path()
    shown: str = ""
    """Its path for people."""
    counts: bool = True
    """Whether it may be used: it is the user's own, or was agreed to."""
    tools: tuple[str, ...] | None = None
    """Those that an agent may use, by name, or as far as it may: `bash`, `Bash(git *)`; None: all."""
    without_tools: tuple[str, ...] = ()
    """Those of them that it may not."""
    only_reads: bool = False
    """Whether an agent has but tools that read."""
    steps: int = 0
    """What an agent may take for a task at most; 0: what the settings say."""
    model: str = ""
    """The model that an agent asks; empty: that of the session."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that would be a skill, a command or an agent, unread."""

    kind: Kind
    path: Path
    parts: tuple[str, ...]
    """Below its folder, without `SKILL.md` or `.md`: what it is called by."""
    top: Path | None
    """The top of the project that brings it; None where it is the user's own."""


def up_to_top(cwd: Path) -> list[Path]:
    """The folders from `cwd` up to the top of its git repository; outside of one, `cwd` alone."""
    folders = [cwd, *cwd.parents]
    top = next((place for place, folder in enumerate(folders) if is_there(folder / ".git")), 0)
    return folders[: top + 1]


def leads_out(path: Path, top: Path) -> bool:
    """Whether a path in the project below `top` is, or lies behind, a link to elsewhere."""
    return not Path(real_path(path)).is_relative_to(real_path(top))


def candidates(kind: Kind, cwd: Path, environ: Mapping[str, str] = os.environ) -> Iterator[Candidate]:
    """All there are of a kind, nearest first, those of one folder by name; a file that several paths lead to,
    once. Reads folders: call it off the event loop."""
    home = typed_path("~")
    own = [config_dir(environ) / kind, *(home / name for name in _FOLDERS[kind])]
    of_user = {real_path(folder) for folder in own}
    folders = up_to_top(cwd)
    brought = (folder / name for folder in folders for name in (f".foldline/{kind}", *_FOLDERS[kind]))
    places = [(folder, folders[-1]) for folder in brought if real_path(folder) not in of_user]
    seen: set[str] = set()
    for folder, top in (*places, *((folder, None) for folder in own)):
        found = _skills_in(folder) if kind == "skills" else _commands_in(folder)
        for path in islice(found, _MOST_FILES):
            real = real_path(path)
            if real not in seen:
                seen.add(real)
                named = path.parent if kind == "skills" else path.with_suffix("")
                yield Candidate(kind, path, named.relative_to(folder).parts, top)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST_FILES]  # noqa: PTH208 - `Path` would make objects of them
    except OSError:
        return []


def _skills_in(folder: Path) -> Iterator[Path]:
    for name in _names(folder):
        there = _names(folder / name)
        yield from (folder / name / each for each in SKILL_FILES if each in there)


def _commands_in(folder: Path) -> Iterator[Path]:
    real = Path(real_path(folder))
    waiting, seen = [folder], {str(each) for each in (real, *real.parents)}  # a link may lead up
    for below in waiting:  # grows on the way
        for name in _names(below):
            path = below / name
            if name.endswith(".md"):
                yield path
            elif len(waiting) < _MOST_FILES and is_folder(path) and (leads_to := real_path(path)) not in seen:
                waiting.append(path)
                seen.add(leads_to)


def hook_files(cwd: Path, environ: Mapping[str, str] = os.environ) -> Iterator[tuple[Path, Path | None]]:
    """The files that may define hooks, and, as of candidates, the top of their project: the user's own first,
    then the project's, from its top down."""
    own = [config_dir(environ) / "hooks.json", typed_path("~") / ".claude" / "settings.json"]
    yield from ((path, None) for path in own)
    seen = {real_path(path) for path in own}
    folders = up_to_top(cwd)
    for folder in reversed(folders):
        for name in PROJECT_HOOKS:
            if real_path(folder / name) not in seen:
                yield folder / name, folders[-1]


# --- front matter -----------------------------------------------------------------------------------------

_LOOSE: Final = re.compile(
    r"^(argument-hint:[ \t]*(?=\[)|description:[ \t]+(?=[^\s'\"|>&*!{\[#].*:(?:\s|$)))(.*?)[ \t]*$",
    re.MULTILINE,
)
"""`[one] [two]`, and a text with a colon, as people and other agents write them, are no YAML."""
_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def front_matter(text: str) -> tuple[Mapping[str, object] | None, str]:
    """The fields at the head of a Markdown file, and what stands below them; None where there is no head. All
    that is written is text: `name: 12` is the text `12`.

    Raises:
        ValueError: it cannot be read; why, as the end of a sentence.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT.match(text)
    if match is None:
        if text.startswith("---\n"):
            raise ValueError("its front matter has no end, a line of three dashes")
        return None, text
    if len(match[1]) > _MOST_FRONT:
        raise ValueError(f"its front matter has more than {_MOST_FRONT:,} characters")
    front = _LOOSE.sub(lambda line: line[1] + "'{}'".format(line[2].replace("'", "''")), match[1])
    return _fields(front), text[match.end() :].strip()


def _fields(front: str) -> Mapping[str, object]:
    import yaml  # only where a file has front matter

    try:
        # An alias may stand for a million copies, and a tag for an object: neither is any use here.
        odd = (yaml.AnchorToken, yaml.AliasToken, yaml.TagToken)
        depth = 0
        for token in yaml.scan(front):
            name = type(token).__name__
            depth += name.endswith("StartToken") - name.endswith("EndToken")
            if isinstance(token, odd):
                raise ValueError("its front matter has anchors or tags, which are not read")
            if depth > _DEEPEST:
                raise ValueError("its front matter is nested too deep")
        nodes = [yaml.compose(front, Loader=yaml.BaseLoader)]
        for node in nodes:  # grows on the way
            fields = node.value if isinstance(node, yaml.MappingNode) else ()
            if len({str(key.value) for key, _ in fields}) < len(fields):
                raise ValueError("its front matter has a field twice")
            nodes += [value for _, value in fields]
        found = yaml.load(front, Loader=yaml.BaseLoader)  # noqa: S506 - it makes nothing but texts
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 2}"
        what = getattr(error, "problem", None) or "not understood"
        raise ValueError(f"its front matter is no YAML: {what}{where}") from None
    if not isinstance(found, dict):
        raise ValueError("its front matter is no list of fields")
    return found
