"""Finds skills, commands, agents and hook files on disk, and reads front matter.

Imports only a few modules, because `trust` uses this module before the first paint.
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
"""The type of an extension.

The first three are also the names of Foldline's folders. Prompts come from tool servers.
"""
KINDS: Final[Sequence[Kind]] = ("skills", "commands", "agents")

_FOLDERS: Final[Mapping[Kind, Sequence[str]]] = {
    "skills": (".agents/skills", ".claude/skills"),
    "commands": (".claude/commands", ".codex/prompts"),
    "agents": (".claude/agents",),
}
"""Folders of other agent programs, in a project and in the user's home folder."""
SKILL_FILES: Final = ("SKILL.md", "skill.md")
PROJECT_HOOKS: Final = (
    ".foldline/hooks.json",
    ".claude/settings.json",
    ".claude/settings.local.json",
)
HOOK_FILES: Final = frozenset(Path(name).name for name in PROJECT_HOOKS)
_MOST_FILES: Final = 500
"""Maximum number of files, and of folders, examined below one folder. The rest is ignored."""
_MOST_FRONT: Final = 20_000
"""Maximum length of front matter, in characters. Longer front matter is rejected."""
_DEEPEST: Final = 50
"""Maximum nesting depth of front matter. PyYAML's running time is quadratic in the depth."""
NO_FRONT_MATTER: Final = "it does not begin with front matter"
OPEN_FRONT_MATTER: Final = "its front matter does not end with a line of three dashes"
LONG_FRONT_MATTER: Final = f"its front matter has more than {_MOST_FRONT:,} characters"
BAD_YAML: Final = "its front matter is not valid YAML: {problem}{place}"
NOT_FIELDS: Final = "its front matter is not a list of fields"
ANCHORS: Final = "its front matter contains anchors or tags, which are not supported"
TOO_DEEP: Final = "its front matter is nested too deeply"
DUPLICATE_FIELD: Final = "its front matter has a duplicate field"


@dataclass(frozen=True, slots=True)
class Extension:
    """A skill, a command, an agent, or a tool server's prompt.

    All strings except the body are sanitised and contain no line breaks.
    """

    kind: Kind
    name: str
    description: str
    body: str = ""
    hint: str = ""
    """Hint that tells the user which arguments are expected."""
    for_model: bool = True
    """Whether the model may load the skill without being asked by the user."""
    path: Path = Path()
    shown: str = ""
    """Path as shown to the user."""
    is_trusted: bool = True
    """Whether the file belongs to the user, or the user has agreed to it."""
    tools: tuple[str, ...] | None = None
    """Tools that an agent may use; None for all tools.

    An entry can cover a whole tool or part of it: `bash` or `Bash(git *)`.
    """
    without_tools: tuple[str, ...] = ()
    """Tools that an agent must not use."""
    only_reads: bool = False
    """Whether an agent only gets read-only tools."""
    steps: int = 0
    """Maximum number of steps that an agent may take per task; 0 to use the setting."""
    model: str = ""
    """Model of an agent; empty to use the session's model."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The file of a skill, command or agent, before it is read."""

    kind: Kind
    path: Path
    parts: tuple[str, ...]
    """Parts of the name: the path below the folder, without `SKILL.md` or `.md`."""
    top: Path | None
    """Top folder of the file's project; None for the user's own files."""


def up_to_top(cwd: Path) -> list[Path]:
    """Return the folders from `cwd` up to the top of its git repository.

    Outside a repository, returns only `cwd`.
    """
    folders = [cwd, *cwd.parents]
    for index, folder in enumerate(folders):
        if is_there(folder / ".git"):
            return folders[: index + 1]
    return [cwd]


def leads_out(path: Path, top: Path) -> bool:
    """Return whether a link in the path leads out of the project."""
    return not Path(real_path(path)).is_relative_to(real_path(top))


def candidates(kind: Kind, cwd: Path) -> Iterator[Candidate]:
    """Yield the extension files of one kind, nearest folder first.

    A file that can be reached by several paths is yielded once. Blocking: do not call it on the event loop.
    """
    seen: set[str] = set()
    for folder, top in _folders(kind, cwd):
        paths = _skills_in(folder) if kind == "skills" else _commands_in(folder)
        for path in islice(paths, _MOST_FILES):
            real = real_path(path)
            if real in seen:
                continue
            seen.add(real)
            named_path = path.parent if kind == "skills" else path.with_suffix("")
            yield Candidate(kind, path, named_path.relative_to(folder).parts, top)


def _folders(kind: Kind, cwd: Path) -> list[tuple[Path, Path | None]]:
    """Return the folders for one kind of extension, starting with the project's.

    Each folder comes with the top folder of its project, or None if the folder is the user's own.
    """
    home = typed_path("~")
    own = [config_dir(os.environ) / kind, *(home / name for name in _FOLDERS[kind])]
    own_real = {real_path(folder) for folder in own}
    parents = up_to_top(cwd)
    names = (f".foldline/{kind}", *_FOLDERS[kind])
    of_project = [parent / name for parent in parents for name in names]
    return [
        *(
            (folder, parents[-1])
            for folder in of_project
            if real_path(folder) not in own_real
        ),
        *((folder, None) for folder in own),
    ]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))[:_MOST_FILES]  # noqa: PTH208 - faster than `Path` objects
    except OSError:
        return []


def _skills_in(folder: Path) -> Iterator[Path]:
    for name in _names(folder):
        file_names = _names(folder / name)
        for skill_file in SKILL_FILES:
            if skill_file in file_names:
                yield folder / name / skill_file


def _commands_in(folder: Path) -> Iterator[Path]:
    real = Path(real_path(folder))
    seen = {
        str(parent) for parent in (real, *real.parents)
    }  # a link may lead to a parent folder
    queue = [folder]
    for subfolder in queue:  # the list grows during the loop
        for name in _names(subfolder):
            path = subfolder / name
            if name.endswith(".md"):
                yield path
            elif len(queue) < _MOST_FILES and is_folder(path):
                real_subfolder = real_path(path)
                if real_subfolder not in seen:
                    queue.append(path)
                    seen.add(real_subfolder)


def hook_files(cwd: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield hook files, each with the top folder of its project.

    The user's own files come first, then the project's, from its top folder down.
    """
    own = [
        config_dir(os.environ) / "hooks.json",
        typed_path("~") / ".claude" / "settings.json",
    ]
    for path in own:
        yield path, None
    own_real = {real_path(path) for path in own}
    folders = up_to_top(cwd)
    for folder in reversed(folders):
        for name in PROJECT_HOOKS:
            if real_path(folder / name) not in own_real:
                yield folder / name, folders[-1]


# --- front matter -----------------------------------------------------------------------------------------

_LOOSE: Final = re.compile(
    r"^(argument-hint:[ \t]*(?=\[)|description:[ \t]+(?=[^\s'\"|>&*!{\[#].*:(?:\s|$)))(.*?)[ \t]*$",
    re.MULTILINE,
)
"""Matches common values that are invalid in YAML, such as `[one] [two]` or strings that contain a colon."""
_FRONT: Final = re.compile(
    r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)


def front_matter(text: str) -> tuple[Mapping[str, object] | None, str]:
    """Split a Markdown file into front matter and body.

    All values are strings: `name: 12` gives `"12"`. The fields are None if there is no front matter.

    Raises:
        ValueError: the front matter cannot be read. The message is a clause that states the reason.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    match = _FRONT.match(text)
    if match is None:
        if text.startswith("---\n"):
            raise ValueError(OPEN_FRONT_MATTER)
        return None, text
    if len(match[1]) > _MOST_FRONT:
        raise ValueError(LONG_FRONT_MATTER)
    front = _LOOSE.sub(_quoted, match[1])
    return _fields(front), text[match.end() :].strip()


def _quoted(line: re.Match[str]) -> str:
    value = line[2].replace("'", "''")
    return f"{line[1]}'{value}'"


def _fields(front: str) -> Mapping[str, object]:
    import yaml  # only for files with front matter

    try:
        _check_yaml(front)
        fields = yaml.load(front, Loader=yaml.BaseLoader)  # noqa: S506 - it creates only strings
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" in line {mark.line + 2}"
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise ValueError(BAD_YAML.format(problem=problem, place=place)) from None
    if not isinstance(fields, dict):
        raise ValueError(NOT_FIELDS)
    return fields


def _check_yaml(front: str) -> None:
    """Check front matter for dangerous or ambiguous YAML.

    An alias, for example, may expand to a million copies.

    Raises:
        ValueError: the YAML has tags, anchors, deep nesting or duplicate fields.
    """
    import yaml

    depth = 0
    for token in yaml.scan(front):
        name = type(token).__name__
        if name.endswith("StartToken"):
            depth += 1
        elif name.endswith("EndToken"):
            depth -= 1
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken | yaml.TagToken):
            raise ValueError(ANCHORS)
        if depth > _DEEPEST:
            raise ValueError(TOO_DEEP)
    nodes = [yaml.compose(front, Loader=yaml.BaseLoader)]
    for node in nodes:  # the list grows during the loop
        if not isinstance(node, yaml.MappingNode):
            continue
        if len({str(key.value) for key, _ in node.value}) < len(node.value):
            raise ValueError(DUPLICATE_FIELD)
        nodes += [value for _, value in node.value]
