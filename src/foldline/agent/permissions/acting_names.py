"""Names of files and folders that are self-executing (see `tools/paths.py`)."""

import re
from collections.abc import Sequence

_INERT = frozenset(
    (".gitignore", ".gitkeep", ".keep", ".dockerignore", ".editorconfig", ".mailmap")
)
"""Hidden files that cannot make a program run code."""
_FOLDERS = frozenset(
    (
        ".agents", ".foldline", ".git", ".githooks", ".husky", ".lefthook", ".ssh",
        ".vscode", ".idea", ".zed", ".devcontainer", ".direnv",
        ".claude", ".codex", ".cursor", ".gemini", ".kimi", ".kiro", ".klaude", ".opencode", ".pi", ".qwen",
        ".amazonq", ".augment", ".clinerules", ".continue", ".junie", ".roo", ".windsurf",
    )
)  # fmt: skip
_FILES = re.compile(
    r"""head  # makes a folder a repository without `.git`; its settings name programs
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
"""Matches the names of self-executing files, in lower case."""
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Matches characters that HFS+ ignores in names.

On HFS+, `.g\u200cit` is `.git` (see git's check in utf8.c).
"""


def may_act(parts: Sequence[str]) -> bool:
    """Return whether a file may be self-executing, judged by the names in its path."""
    if not parts:
        return False
    *folders, name = map(plain_name, parts)
    if name.startswith(".") and name not in _INERT:
        return True
    return _FILES.fullmatch(name) is not None or any(
        folder.startswith(".") for folder in folders
    )


def acts_by_itself(name: str) -> bool:
    """Return whether a file or folder with this name is known to be self-executing.

    Used for files that commands create, for which `may_act` is too strict, because most hidden folders are
    caches. Repositories are checked separately, because only some of their files are self-executing.
    """
    plain = plain_name(name)
    if plain in (".git", "head"):
        return False
    return plain in _FOLDERS or _FILES.fullmatch(plain) is not None


def plain_name(name: str) -> str:
    """Normalise a name for file systems that ignore case, skip characters or use short names."""
    plain = _UNSEEN.sub("", name).casefold().rstrip(". ")
    return ".git" if plain == "git~1" else plain
