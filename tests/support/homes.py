"""Typical files of Claude Code and Codex, in a home folder and in a project.

All texts are written for these tests.
"""

import json
from pathlib import Path


def put(path: Path, text: str) -> Path:
    """Write a file, and create its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill(
    folder: Path,
    name: str,
    description: str = "Does a thing.",
    body: str = "Do it.",
    more: str = "",
) -> Path:
    """Write the `SKILL.md` of a skill."""
    head = f"---\nname: {name}\ndescription: {description}\n{more}---\n"
    return put(folder / name / "SKILL.md", head + body)


def usual_home(home: Path) -> None:
    """Create the home folder of a user of both agents."""
    skill(
        home / ".claude/skills",
        "pdf-forms",
        "Fills in PDF forms.",
        "Run scripts/fill.py.",
        "version: 1.2.0\n",
    )
    put(home / ".claude/skills/pdf-forms/scripts/fill.py", "print('filled')\n")
    skill(
        home / ".agents/skills",
        "release-notes",
        "Writes release notes.",
        "Read the log first.",
    )
    put(
        home / ".claude/commands/review.md",
        "---\ndescription: Reviews a change\nargument-hint: [path] [focus]\n"
        "allowed-tools: Bash(git diff:*), Read\nmodel: opus\n---\n"
        "Review $1 as a stranger would. All that was said: $ARGUMENTS\n",
    )
    put(
        home / ".claude/commands/frontend/component.md",
        "Make a component called $1, as in @src/Button.tsx.\n",
    )
    put(home / ".codex/prompts/ticket.md", "Write a ticket about: $ARGUMENTS\n")
    put(home / ".claude/settings.json", '{"permissions": {"allow": ["Bash(ls:*)"]}}\n')
    put(home / ".claude/CLAUDE.md", "Be brief.\n")
    put(
        home / ".codex/config.toml",
        'model = "gpt-5"\n[mcp_servers.docs]\ncommand = "docs-server"\n',
    )
    put(
        home / ".claude.json",
        '{"numStartups": 7, "mcpServers": {"tickets": {"type": "http", "url": "https://x"}}}',
    )
    agent = "---\nname: reviewer\ndescription: Reads changes\ntools: Read\n---\nBe strict.\n"
    put(home / ".claude/agents/reviewer.md", agent)
    put(home / ".codex/AGENTS.md", "Be brief.\n")


def usual_project(project: Path) -> None:
    """Create a repository with files for both agents."""
    (project / ".git").mkdir(parents=True)
    put(project / "CLAUDE.md", "Run make test.\n")
    skill(
        project / ".claude/skills",
        "deploy",
        "Deploys the shop.",
        "Never deploy on a Friday.",
    )
    skill(
        project / ".agents/skills",
        "release-notes",
        "Release notes of the shop.",
        "Begin with the ticket.",
    )
    put(
        project / ".claude/commands/fix-issue.md",
        "Fix issue #$1, then run the tests.\n",
    )
    put(
        project / ".claude/commands/compact.md",
        "Ours is called like one of Foldline's own.\n",
    )


def hooks(path: Path, **commands: str) -> None:
    """Write a hook file with one command per event."""
    config = {
        event: [{"hooks": [{"type": "command", "command": command}]}]
        for event, command in commands.items()
    }
    put(path, json.dumps({"hooks": config}))
