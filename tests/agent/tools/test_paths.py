"""Whether a command stays in the folder, as far as its words tell."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from foldline.agent.tools import ToolContext, paths
from foldline.agent.tools.paths import command_inside, may_be_changed
from support.tools import TOOLS, call


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "a.py").touch()
    (folder / "out").symlink_to(tmp_path)
    (folder / "in").symlink_to(folder / "src")
    return folder


@pytest.mark.parametrize(
    "command",
    [
        "ls", "cat src/a.py", "cat src/../src/a.py", "cat in/a.py", "git status", "make -j4 > log 2>&1",
        "echo hi > /dev/null", "sed s/a/b/ src/a.py", "ls src/*.py", "grep '^/x' src/a.py", "cat .gitignore",
        "git commit -m 'a (b) c'", "cd src && ls", "cat nowhere", "/usr/bin/env ls", "ls -la --color=auto",
    ],
)  # fmt: skip
def test_a_command_that_names_nothing_outside_stays_inside(
    project: Path, command: str
) -> None:
    assert command_inside(command, project)


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd", "cat ../x", "cat src/../../x", "cat out/x", "cat out", "ls ~", "ls ~root",
        "ls $HOME",
        "ls ${HOME}", "ls `pwd`", "cat </etc/passwd", "echo a>/etc/x", "echo a >>../x", "cat a;cat /etc/x",
        "cat x|tee /etc/x", "git log --output=/etc/x", "git log --output=../x", "dd of=/dev/sda",
        "cc -I/usr/x",
        "cc -I../x", "curl -d @/etc/passwd x", "curl file:///etc/passwd", "cat {/etc,src}/x", "cat .{.,}/x",
        "cat /et*/passwd", "cat .*/x", "cat .?/x", "cat .[.]/x", "cat \\/etc/x", "cat '/etc/x'", 'cat ".."/x',
        "python -c \"open('/etc/passwd')\"", "cd ..", "cd", "cd -", "cd && ls", "cd; ls", "cd\nls", "popd",
        "pushd; ls", "(cd; ls)", "cd /tmp", "cat $'\\x2fetc'", "cat 'a", "PATH=/x ls", "a=~/x ls", "../x.sh",
        "cat <<EOF\n/etc/passwd\nEOF", "scp a host:/x", "cat a\x00/etc", "true " * 3_000,
    ],
)  # fmt: skip
def test_what_names_a_way_out_or_cannot_be_told_counts_as_outside(
    project: Path, command: str
) -> None:
    assert not command_inside(command, project)


@pytest.mark.parametrize(
    "name", ["a,b", "a=b", "a:b", "a@b", "a b", "@z", "--x=a,b", "-ox@y", "ü ö", 'a"b']
)
@pytest.mark.parametrize(
    "word", ["{}/x", "{}", "--file={}/x", "k:{}/x", "-f{}/x", "./{}/x"]
)
def test_a_link_is_followed_whatever_its_name_holds(
    project: Path, name: str, word: str
) -> None:
    (project / name).symlink_to(project.parent)
    assert not command_inside(f"cat {shlex.quote(word.format(name))}", project)
    assert command_inside(f"cat {shlex.quote(word.format('x' + name))}", project)


def test_a_long_message_stays_inside_and_a_program_in_one_word_does_not(
    project: Path,
) -> None:
    assert command_inside(f"git commit -m '{'many words, and more; ' * 50}'", project)
    assert not command_inside(f"python -c '{'print(1); ' * 400}'", project)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a project, and with what Foldline keeps."""
    folder = tmp_path / "home"
    (folder / "work").mkdir(parents=True)
    (folder / ".config").mkdir()
    (folder / "kept" / "sessions").mkdir(parents=True)
    (folder / "kept" / "sessions" / "events.jsonl").write_text(
        "needle of another project\n"
    )
    (folder / "work" / "a.txt").write_text("needle\n")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("FOLDLINE_HOME", str(folder / "kept"))
    return folder


@pytest.mark.parametrize(
    "name",
    [
        ".git/hooks/pre-commit", ".git", "sub/.git/config", ".GIT/config", ".g\u200cit/config",
        "GIT~1/config", ".hg/hgrc", "sub/.hg/hgrc", "sub/hgrc", ".kiro/hooks/x.json", ".npmrc", "web/.npmrc",
        ".github/workflows/ci.yml", ".github/ISSUE_TEMPLATE.md", ".gitattributes", "sub/.env", ".hidden",
        ".gitlab-ci.yml", ".cargo/config.toml", ".yarnrc.yml", ".eslintrc.json", ".prettierrc",
        ".python-version", ".NPMRC", ".\u200cnpmrc", ".gitignore/x", ".editorconfig/.gitignore",
        ".cache/.gitignore",
        "a/.b/c.txt", "crush.json", "mise.toml", "WARP.md",
        ".git./config", ".husky/pre-commit", ".vscode/tasks.json", ".VSCode/settings.json",
        ".claude/settings.json", ".foldline.toml", "sub/.foldline.toml", "AGENTS.md", "sub/agents.md",
        "CLAUDE.md", ".mcp.json", ".envrc", "HEAD", "link/config", "bare/config", "bare/hooks/post-commit",
        "bare/refs/x", "sub/../.git/config", "old/config", "rules/of/ours.md", "linked/tasks.json",
        ".pre-commit-config.yaml", "lefthook.yml", ".lefthook-local.yaml", ".devcontainer.json", ".codex/x",
        ".gemini/settings.json", "opencode.json", ".opencode/x", "GEMINI.md", "web/QWEN.md",
        "CLAUDE.local.md",
        ".github/copilot-instructions.md", ".github/instructions/py.instructions.md", ".zed/tasks.json",
        ".exrc", ".nvim.lua", ".dir-locals.el", ".cursorrules", ".githooks/pre-commit", ".idea/workspace.xml",
        ".devcontainer/devcontainer.json", ".cursor/mcp.json", ".ssh/config", "sub/.ssh/authorized_keys",
    ],
)  # fmt: skip
@pytest.mark.parametrize("tool", ["write", "edit"])
def test_a_change_of_what_acts_by_itself_asks(
    context: ToolContext, tool: str, name: str
) -> None:
    (context.cwd / ".git").mkdir()
    (context.cwd / "link").symlink_to(".git")
    (context.cwd / "bare").mkdir()
    (context.cwd / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (context.cwd / "old").mkdir()
    (context.cwd / "old" / "HEAD").symlink_to("refs/heads/not-born-yet")
    (context.cwd / "AGENTS.md").symlink_to("rules/of/ours.md")
    (context.cwd / ".vscode").symlink_to("linked")
    given = {"write": {"content": ""}, "edit": {"old": "a", "new": "b"}}[tool]
    assert not TOOLS[tool].inside({"path": name, **given}, context)


@pytest.mark.parametrize(
    "name",
    ["a.py", ".gitignore", "sub/.gitignore", ".gitkeep", "docs/agents.md.txt", ".editorconfig",
     ".dockerignore", "git/hooks/x", "Makefile", "sub/new/b.py", "lefthook/x", "zed/tasks.json", "head/x",
     "instructions.md"],
)  # fmt: skip
def test_a_change_of_any_other_file_of_the_project_does_not(
    context: ToolContext, name: str
) -> None:
    assert TOOLS["write"].inside({"path": name, "content": ""}, context)


@pytest.fixture
def repository(context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> ToolContext:
    """With settings that name files of its own, some of them by an include, one of them the user's."""
    home = context.cwd.parent / "user"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\tpager = ./tools/page.sh -R\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    subprocess.run(["git", "init", "-q", str(context.cwd)], check=True)
    config = context.cwd / ".git" / "config"
    config.write_text(
        f"{config.read_text()}[core]\n\tfsmonitor = tools/watch\n[include]\n\tpath = more\n"
    )
    config.with_name("more").write_text(
        '[CORE]\n\thooksPath = "tools/our hooks"\n[user]\n\tname = src\n'
    )
    return context


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
@pytest.mark.parametrize(
    ("name", "asks"),
    [
        ("tools/our hooks/pre-commit", True), ("tools/our hooks/new/x", True), ("tools/watch", True),
        ("tools/page.sh", True), ("tools/other", False), ("src/a.py", False), ("our hooks/x", False),
    ],
)  # fmt: skip
def test_what_the_settings_of_git_name_asks(
    repository: ToolContext, name: str, asks: bool
) -> None:
    for cwd in (repository.cwd, repository.cwd / name.partition("/")[0]):
        assert may_be_changed(repository.cwd / name, cwd) is not asks


@pytest.mark.skipif(shutil.which("git") is None, reason="no git")
def test_settings_of_git_that_cannot_be_told_ask(
    repository: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "_PATIENCE", 0.2)
    (repository.cwd / ".git" / "more").unlink()
    os.mkfifo(repository.cwd / ".git" / "more")
    assert not may_be_changed(repository.cwd / "a.py", repository.cwd)


@pytest.mark.parametrize(
    "name",
    [
        ".bashrc",
        ".config/systemd/user/x.service",
        ".ssh/authorized_keys",
        ".new",
        "work/.env",
    ],
)
def test_hidden_files_of_the_home_folder_ask_where_one_works_above_them(
    home: Path, name: str
) -> None:
    assert not may_be_changed(home / name, home)
    assert not may_be_changed(home / name, home.parent)
    assert may_be_changed(home / "work" / "a.txt", home)
    assert may_be_changed(home / ".config" / "vim" / "rc", home / ".config")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"path": "kept/sessions/events.jsonl"}),
        ("grep", {"path": "kept", "pattern": "x"}),
        ("glob", {"path": "kept", "pattern": "*"}),
        ("ls", {"path": "kept/sessions"}),
        ("write", {"path": "kept/config.toml", "content": ""}),
        ("bash", {"command": "cat kept/sessions/events.jsonl"}),
    ],
)
def test_what_foldline_keeps_is_no_part_of_the_folder_it_lies_in(
    home: Path, context: ToolContext, tool: str, arguments: dict[str, object]
) -> None:
    context.cwd = home
    assert not TOOLS[tool].inside(arguments, context)


@pytest.mark.parametrize(
    "name", [".ssh/id_ed25519", ".netrc", ".config/gh/hosts.yml", ".of-tomorrow/key"]
)
async def test_credentials_are_no_part_of_the_home_folder(
    home: Path, context: ToolContext, name: str
) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("a needle\n")
    context.cwd = home
    assert not TOOLS["read"].inside({"path": name}, context)
    assert not TOOLS["bash"].inside({"command": f"cat {name}"}, context)
    assert name not in (await call(context, "grep", pattern="needle")).text
    assert TOOLS["read"].inside({"path": "work/a.txt"}, context)


async def test_a_search_of_all_leaves_out_what_foldline_keeps(
    home: Path, context: ToolContext
) -> None:
    context.cwd = home
    assert TOOLS["grep"].inside({"pattern": "needle"}, context)
    assert (
        await call(context, "grep", pattern="needle")
    ).text == "work/a.txt:1: needle\n"


def test_what_a_call_of_this_session_left_there_may_be_read(
    home: Path, context: ToolContext
) -> None:
    context.cwd, context.spill_dir = home, home / "kept" / "sessions" / "outputs"
    assert TOOLS["read"].inside(
        {"path": str(context.spill_dir / "bash-1.txt")}, context
    )
