"""Sandboxed commands that plant files executed later outside: in repositories, at any depth, and
in place of existing files."""

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from foldline.agent.permissions import sandbox_acting
from foldline.agent.permissions.sandbox_acting import ActingEntry
from foldline.agent.permissions.sandbox_record import MAY_BE_YOURS
from support.sandboxes import SandboxRunner, sandbox_in

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed"
)

GIT_IDENTITY = {
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@b.c", "GIT_EDITOR": "true", "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow", "GIT_CONFIG_VALUE_0": "always",
}  # fmt: skip
SETUP = """
git init -q -b main other && (cd other && echo o >o && git add . && git commit -qm o)
git init -q -b main project && cd project
for each in 1 2 3; do echo "$each" >f; git add f; git commit -qm "$each"; done
git branch side main~1
git remote add origin ../other
git submodule add -q ../other sub && git commit -qm sub
git worktree add -q tree -b tree
printf '/%s\n' tree bare.git far >>.git/info/exclude
git init -q --bare bare.git
mkdir -p far/below/it && git init -q far/below/it/nested
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("FOLDLINE_HOME", str(tmp_path / "home" / "foldline"))
    for name, value in GIT_IDENTITY.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "home"


@pytest.fixture
def repository(home: Path) -> Path:
    """A repository with a submodule, a second working tree and nested repositories.

    In the home folder, because commands could not see its origin in `/tmp`.
    """
    subprocess.run(["bash", "-ec", SETUP], cwd=home, check=True, capture_output=True)
    return home / "project"


@pytest.fixture
async def inside(repository: Path) -> AsyncIterator[SandboxRunner]:
    async with sandbox_in(repository, "bubblewrap") as made:
        await made.run("true")
        assert new_in(made) == ()
        yield made


@pytest.fixture
async def plain(tmp_path: Path) -> AsyncIterator[SandboxRunner]:
    """A folder without a repository, but with editor settings."""
    folder = tmp_path / "project"
    (folder / "part" / ".vscode").mkdir(parents=True)
    (folder / "part" / ".vscode" / "tasks.json").write_text("as it was")
    async with sandbox_in(folder, "bubblewrap") as made:
        yield made


def new_in(trial: SandboxRunner, *, is_asked: bool = False) -> tuple[ActingEntry, ...]:
    """Return the new files of a check, reported to the user unless `is_asked`."""
    return trial.sandbox.report("", failed=False, is_asked=is_asked).created


def paths(trial: SandboxRunner) -> list[str]:
    return [os.path.relpath(entry.path, trial.cwd) for entry in new_in(trial)]


# --- git -----------------------------------------------------------------------------------------------

DAILY = {
    "add and commit": "echo x >n; git add n; git commit -qm n; git commit -q --amend -m nn",
    "commit of one path": "echo x >f; echo y >n; git add n; git commit -qm f -- f",
    "switch": "git switch -q side && git switch -qc topic && git switch -q main",
    "stash": "echo x >f; echo y >new; git stash -qu && git stash pop -q",
    "merge": "git switch -q side; echo x >other; git add .; git commit -qm x; git merge -q main -m m",
    "rebase": "git switch -q side; echo x >other; git add .; git commit -qm x; git rebase -q main",
    "rebase, older way": "git switch -q side; echo x >o; git add .; git commit -qm x; "
    "git rebase -q --apply main",
    "conflict that is ended": "! git merge -q side; git switch -q side; echo x >f; git commit -qam x; "
    "! git rebase main; git rebase --abort",
    "cherry-pick and revert": "git revert --no-edit HEAD; git cherry-pick HEAD~1",
    "fetch": "git fetch -q origin && git fetch -q --depth 1 ../other main",
    "pull": "git pull -q --no-rebase --allow-unrelated-histories --no-edit origin main",
    "tag and notes": "git tag -a v1 -m v1 && git notes add -m hi",
    "bisect": "git bisect start HEAD HEAD~2 && git bisect reset",
    "am": "git format-patch -q -1 side -o $TMPDIR; git reset -q --hard side~1; git am -q $TMPDIR/*.patch",
    "gc": "git gc -q && git repack -adq && git commit-graph write --reachable --split && git pack-refs --all",
    "maintenance": "git maintenance run && git prune && git reflog expire --all && git fsck",
    "split index": "git update-index --split-index && echo x >n && git add n",
    "rerere": "git -c rerere.enabled=true merge -q side",
    "other working tree": "cd tree && echo x >f && git commit -qam x && echo y >f && git stash -q && "
    "git stash pop -q && git gc -q",
    "submodule": "cd sub && echo x >o && git commit -qam x && git fetch -q && cd .. && git add sub && "
    "git commit -qm sub && git submodule foreach -q git status -s",
    "nested repository": "cd far/below/it/nested && echo x >o && git add . && git commit -qm o",
    "repository without a tree": "git push -q bare.git main && git -C bare.git gc -q",
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("work", DAILY)
async def test_daily_work_with_git_succeeds_without_questions(
    inside: SandboxRunner, work: str
) -> None:
    tried = await inside.run(f"set -e; {DAILY[work]}")
    assert (tried.status, paths(inside)) == (0, []), tried.text


PLANTED = {
    ".git/commondir": "echo ../evil >.git/commondir",
    ".git/config.worktree": "echo '[core] fsmonitor = ./evil' >.git/config.worktree",
    ".git/rebase-merge": "mkdir .git/rebase-merge; echo 'exec ./evil' >.git/rebase-merge/git-rebase-todo",
    ".git/sequencer": "mkdir .git/sequencer; echo x >.git/sequencer/opts",
    ".git/unheard-of": "echo x >.git/unheard-of",
    ".git/objects/info/alternates": "echo ../evil >.git/objects/info/alternates",
    ".git/logs/refs/heads/x": 'ln -s "$HOME/.bashrc" .git/logs/refs/heads/x',
    ".git/index": 'rm .git/index; ln -s "$HOME/.bashrc" .git/index',
    ".git/worktrees/tree/config.worktree": "echo x >.git/worktrees/tree/config.worktree",
    ".git/worktrees/evil/HEAD": "cp -r .git/worktrees/tree .git/worktrees/evil",
    ".git/modules/sub/commondir": "echo ../evil >.git/modules/sub/commondir",
    "bare.git/commondir": "echo ../evil >bare.git/commondir",
    "far/below/it/nested/.git/commondir": "echo ../evil >far/below/it/nested/.git/commondir",
    "a/b/c/d/e/.git": "mkdir -p a/b/c/d/e/.git/hooks",
    "node_modules/x/.git": "mkdir -p node_modules/x; echo 'gitdir: ../../evil' >node_modules/x/.git",
    "evil/HEAD": "mkdir -p evil/objects evil/refs; echo 'ref: refs/heads/x' >evil/HEAD; echo x >evil/config",
    "linked/HEAD": "mkdir -p linked/objects linked/refs; ln -s refs/heads/x linked/HEAD; >linked/config",
    "far/HEAD": "echo 'ref: refs/heads/x' >far/HEAD; echo ../evil >far/commondir",
}  # fmt: skip


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", PLANTED)
async def test_a_file_planted_in_a_repository_is_reported(
    inside: SandboxRunner, name: str
) -> None:
    await inside.run(PLANTED[name])
    assert paths(inside) == [name]
    assert paths(inside) == []
    await inside.run("true")
    assert paths(inside) == []


async def test_a_new_repository_is_reported_once(inside: SandboxRunner) -> None:
    """Even if it contains repositories of submodules."""
    await inside.run(
        "git clone -q --recurse-submodules $PWD copy; git init -q --bare other.git"
    )
    assert paths(inside) == ["copy/.git", "copy/sub/.git", "other.git/HEAD"]
    assert paths(inside) == []


PROTECTED_FILES = (
    ".git/config", ".git/description", ".git/hooks/pre-commit", ".git/info/exclude", ".git/commondir",
    ".git/unheard-of", ".git/objects/info/alternates", ".git/worktrees/tree/commondir",
    ".git/worktrees/tree/gitdir", ".git/modules/sub/config", "bare.git/config", "sub/.git", "tree/.git",
    "far/below/it/nested/.git/config", "a/b/c/d/e/.vscode/tasks.json",
)  # fmt: skip


async def test_repository_files_that_git_does_not_write_are_read_only(
    inside: SandboxRunner,
) -> None:
    for name in PROTECTED_FILES:
        path = inside.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("." if name.endswith("commondir") else "as it was")
    before = {name: (inside.cwd / name).read_bytes() for name in PROTECTED_FILES}
    for name in PROTECTED_FILES:
        await inside.run(
            'echo x >"$1"; rm -f "$1"; echo x >n; mv n "$1"; ln -f n "$1"', name
        )
    await inside.run(
        "mv far/below/it/nested/.git far/old; mv .git old; mv .git/hooks .git/old"
    )
    assert {
        name: (inside.cwd / name).read_bytes() for name in PROTECTED_FILES
    } == before


MARKS = """
mkdir -p evil && cp -r .git/objects .git/refs evil
echo '[core]' >evil/config
echo "fsmonitor = \\"touch $1/marker; false\\"" >>evil/config
echo ../evil >.git/commondir
"""


async def test_a_redirected_repository_runs_nothing_after_the_planted_file_is_renamed(
    inside: SandboxRunner, tmp_path: Path
) -> None:
    await inside.run(MARKS, str(tmp_path))
    marker, record = tmp_path / "marker", inside.sandbox.acting

    def status() -> bool:
        subprocess.run(
            ["git", "status"], cwd=inside.cwd, check=False, capture_output=True
        )
        return marker.exists()

    assert status(), "else the attempt proves nothing"
    marker.unlink()
    (planted,) = new_in(inside)
    record.put_aside(planted)
    assert not status()
    assert paths(inside) == []


STOPPED_OPERATION = (
    "git switch -qc topic side; echo x >f; git commit -qam x; "
    "git commit -qm y --allow-empty; git rebase main"
)


async def test_an_interrupted_git_operation_continues_with_a_question_per_change(
    inside: SandboxRunner,
) -> None:
    await inside.run(STOPPED_OPERATION)
    stopped = new_in(inside)
    assert [entry.path for entry in stopped] == [f"{inside.cwd}/.git/rebase-merge"]
    inside.sandbox.acting.settle(stopped, are_kept=True)
    await inside.run("echo 'exec ./evil' >>.git/rebase-merge/git-rebase-todo")
    assert paths(inside) == [".git/rebase-merge"]
    tried = await inside.run(
        "git rebase --edit-todo; git checkout --theirs f; git add f; git rebase --continue"
    )
    assert "evil" in tried.text
    assert paths(inside) in ([], [".git/rebase-merge"])


@pytest.fixture
def with_stopped_operation(repository: Path) -> Path:
    """Return a repository in which the user's own operation stopped."""
    subprocess.run(
        ["bash", "-c", STOPPED_OPERATION],
        cwd=repository,
        check=False,
        capture_output=True,
    )
    return repository


async def test_a_git_operation_begun_by_the_user_is_never_renamed(
    with_stopped_operation: Path,
) -> None:
    async with sandbox_in(with_stopped_operation, "bubblewrap") as inside:
        await inside.run("echo 'exec ./evil' >>.git/rebase-merge/git-rebase-todo")
        (changed,) = new_in(inside)
        with pytest.raises(OSError, match="before"):
            inside.sandbox.acting.put_aside(changed)


# --- folders -------------------------------------------------------------------------------------------

MANY = "for each in $(seq 600); do mkdir many-$each; touch file-$each; done"


async def test_many_folder_entries_hide_no_planted_file(plain: SandboxRunner) -> None:
    await plain.run(MANY)
    assert paths(plain) == []
    await plain.run("echo x >part/.vscode/tasks.json; mkdir -p many-7/new/.vscode")
    assert (plain.cwd / "part/.vscode/tasks.json").read_text() == "as it was"
    assert paths(plain) == ["many-7/new/.vscode"]


SWAPPED = {
    "renamed away and back": ("mv part x; mv x part", []),
    "renamed": ("mv part x", []),
    "renamed into another folder": ("mkdir -p a/b; mv part a/b/part", []),
    "renamed and another put there": (
        "mv part x; mkdir -p part/.vscode",
        ["part/.vscode"],
    ),
    "two swapped": (
        "mkdir -p evil/.vscode; mv part x; mv evil part; mv x evil",
        ["part/.vscode"],
    ),
    "a link put there": (
        "mkdir -p evil/.vscode; mv part x; ln -s evil part",
        ["evil/.vscode"],
    ),
    "behind many entries": (
        f"mv part x; {MANY}; mkdir -p part/.vscode",
        ["part/.vscode"],
    ),
    "a link of its name": ("mkdir src; ln -s ../src part/.claude", ["part/.claude"]),
}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("way", SWAPPED)
async def test_the_users_file_is_distinguished_from_its_replacement(
    plain: SandboxRunner, way: str
) -> None:
    """And a rejected file is renamed, never the user's own."""
    own = (plain.cwd / "part" / ".vscode").stat().st_ino
    command, expected = SWAPPED[way]
    await plain.run(command)
    found = new_in(plain)
    assert [os.path.relpath(entry.path, plain.cwd) for entry in found] == expected
    for entry in found:
        plain.sandbox.acting.put_aside(entry)
    (kept,) = (path for path in plain.cwd.rglob(".vscode"))
    assert (kept.stat().st_ino, (kept / "tasks.json").read_text()) == (own, "as it was")
    await plain.run('for each in $(find . -name tasks.json); do echo x >"$each"; done')
    assert (kept / "tasks.json").read_text() == "as it was"


async def test_a_file_swapped_in_during_the_question_is_not_renamed(
    plain: SandboxRunner,
) -> None:
    """A job may swap the two while the question waits."""
    await plain.run("mv part x; mkdir -p part/.vscode")
    (planted,) = new_in(plain, is_asked=True)
    await plain.run("mv part evil; mv x part")
    with pytest.raises(OSError, match="its folder was replaced"):
        plain.sandbox.acting.put_aside(planted)
    assert (plain.cwd / "part/.vscode/tasks.json").read_text() == "as it was"


async def test_the_target_of_a_planted_link_is_not_renamed(
    plain: SandboxRunner,
) -> None:
    (plain.cwd / "src").mkdir()
    (plain.cwd / ".claude").symlink_to("now/claude")
    (plain.cwd / "now").symlink_to("part")
    await plain.run("rm now; ln -s . now; mv src claude")
    (led_to,) = new_in(plain)
    assert led_to.path == f"{plain.cwd}/claude"
    with pytest.raises(OSError, match=MAY_BE_YOURS):
        plain.sandbox.acting.put_aside(led_to)


async def test_a_file_that_vanished_and_reappeared_is_asked_about_and_not_renamed(
    plain: SandboxRunner,
) -> None:
    """It was not protected in between."""
    await plain.run("mkdir -p node_modules; mv part node_modules/part")
    assert paths(plain) == []
    await plain.run("echo x >node_modules/part/.vscode/tasks.json")
    await plain.run("mv node_modules/part part")
    (back,) = new_in(plain)
    assert back.path == f"{plain.cwd}/part/.vscode"
    with pytest.raises(OSError, match="before"):
        plain.sandbox.acting.put_aside(back)


async def test_a_folder_too_deep_to_check_is_named(plain: SandboxRunner) -> None:
    deep = "import os\nfor _ in range(25):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\nos.mkdir('.vscode')"
    await plain.python(deep)
    (found,) = new_in(plain)
    assert found.path.startswith(f"{plain.cwd}/ddd")
    assert (await plain.run("echo runs on")).text == "runs on\n"


async def test_too_many_folders_are_reported_and_protected_files_stay_protected(
    plain: SandboxRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox_acting, "_MOST_FOLDERS", 40)
    await plain.run("true")
    assert paths(plain) == []
    await plain.run("for each in $(seq 60); do mkdir 0-$each; done")
    assert paths(plain) == ["."]
    await plain.run("echo x >part/.vscode/tasks.json; rm -r part/.vscode")
    assert (plain.cwd / "part/.vscode/tasks.json").read_text() == "as it was"


async def test_agent_files_in_installed_packages_are_not_asked_about(
    plain: SandboxRunner,
) -> None:
    await plain.run(
        "mkdir -p node_modules/x/.vscode; echo x >node_modules/x/AGENTS.md; rm -r node_modules"
    )
    assert paths(plain) == []
