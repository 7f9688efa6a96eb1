"""Lookup of programs: absolute paths, outside of folders that commands may write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foldline import programs
from foldline.agent.tools.bash import BashTool
from foldline.agent.tools.paths import may_be_changed
from foldline.programs import (
    NOT_INSTALLED,
    find_program,
    keep_out,
    own_places,
    program,
    python_command,
    shell,
    skipped_program,
    trusted_environment,
    why_missing,
)
from foldline.tui.app.git import git_state
from support.sandboxes import sandbox_in
from support.tools import call, tool_context


def put_program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, which commands may write."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setattr(programs, "_writable", set())
    keep_out([folder])
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of programs outside the project."""
    put_program(tmp_path / "bin" / "tool")
    return tmp_path / "bin"


def set_path(monkeypatch: pytest.MonkeyPatch, *folders: Path | str) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, folders)))


@pytest.mark.parametrize(
    "first", ["{project}/.venv/bin", "{project}", ".", "", "bin", "{project}/x/../bin"]
)
def test_a_program_of_the_working_folder_is_passed_over(
    project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.chdir(project)
    for folder in (".venv/bin", ".", "bin"):
        put_program(project / folder / "tool")
    (project / "x").mkdir()
    set_path(monkeypatch, first.format(project=project), outside)
    assert program("tool") == str(outside / "tool")
    assert trusted_environment(os.environ)["PATH"] == str(outside)


@pytest.mark.parametrize("way", ["program", "folder", "back out", "the folder above"])
def test_a_link_that_leads_through_the_working_folder_is_passed_over(
    project: Path,
    outside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    """The program is outside, but a command could change the link in the middle."""
    links = tmp_path / "links"
    put_program(project / "tools" / "tool")
    match way:
        case "program":
            links.mkdir()
            (links / "tool").symlink_to(project / "tools" / "tool")
        case "folder":
            links.symlink_to("project/tools")
        case "back out":
            links.mkdir()
            (project / "middle").symlink_to(outside / "tool")
            (links / "tool").symlink_to("../project/middle")
        case _:
            (tmp_path / "above").symlink_to(project)
            links = tmp_path / "above" / "tools"
    set_path(monkeypatch, links, outside)
    assert program("tool") == str(outside / "tool")


def test_a_link_outside_keeps_its_name(
    project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program with several names behaves according to the name that it is called by."""
    (outside / "other").symlink_to("tool")
    set_path(monkeypatch, outside)
    assert program("other") == str(outside / "other")


def test_a_circle_of_links_starts_nothing(
    project: Path, outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    set_path(monkeypatch, tmp_path / "a", outside)
    assert program("tool") == str(outside / "tool")
    assert trusted_environment(os.environ)["PATH"] == str(outside)


def test_folders_of_path_that_may_not_be_looked_at_are_passed_over(
    project: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_path(monkeypatch, f"/{'x' * 300}/bin", outside)
    assert program("tool") == str(outside / "tool")
    assert trusted_environment(os.environ)["PATH"] == os.environ["PATH"]


def test_a_program_that_is_only_in_the_working_folder_counts_as_not_installed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = put_program(project / "bin" / "tool")
    set_path(monkeypatch, project / "bin")
    assert find_program("tool") is None
    assert skipped_program("tool") == str(there)
    assert str(there) in why_missing("tool")
    with pytest.raises(FileNotFoundError, match=str(there)):
        program("tool")
    assert why_missing("nothing-of-this-name") == NOT_INSTALLED.format(
        name="nothing-of-this-name"
    )


def test_a_folder_that_commands_may_write_from_now_on_is_passed_over_from_now_on(
    project: Path, outside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = put_program(tmp_path / "cache" / "bin" / "tool")
    set_path(monkeypatch, cache.parent, outside)
    assert program("tool") == str(cache)
    keep_out([tmp_path / "cache"])
    assert program("tool") == str(outside / "tool")


def test_a_folder_whose_name_only_begins_alike_is_another(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = put_program(tmp_path / "project-tools" / "tool")
    set_path(monkeypatch, there.parent)
    assert program("tool") == str(there)


async def test_what_a_command_writes_into_path_is_started_by_nothing(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shell, the search tool and git: each would write the marker outside."""
    marker = tmp_path / "marker"
    for name in ("bash", "rg", "git", "nsenter", "bwrap", "true"):
        put_program(project / ".venv" / "bin" / name, f"touch {marker}; exit 1")
    set_path(monkeypatch, project / ".venv" / "bin", os.environ["PATH"])
    (project / ".git").mkdir()
    context = tool_context(project)
    assert shell().endswith("bash") and not shell().startswith(str(project))
    assert (await call(context, "bash", command="echo ran")).text == "ran\n"
    await call(context, "grep", pattern="x")
    may_be_changed(project / "a.py", project)
    git_state(project)
    async with sandbox_in(project, "bubblewrap") as made:
        assert (await made.run("echo inside")).text == "inside\n"
    assert not marker.exists()


def test_what_a_program_of_ours_starts_in_turn_is_not_of_the_working_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git finds the filters of the user's settings by PATH."""
    marker = tmp_path / "marker"
    put_program(project / "bin" / "git-wash", f"touch {marker}; cat")
    set_path(monkeypatch, project / "bin", os.environ["PATH"])
    (tmp_path / "settings").write_text('[filter "wash"]\n\tclean = git-wash\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    git = [program("git"), "-C", str(project)]
    subprocess.run([*git, "init", "-q"], check=True)
    (project / "a.txt").write_text("one\n")
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "add", "a.txt"], check=True)
    subprocess.run([*git, *who, "commit", "-qm", "one"], check=True)
    (project / ".gitattributes").write_text("*.txt filter=wash\n")
    (project / "a.txt").write_text("two\n")
    git_state(project)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "value", "trusted"),
    [
        ("PATH", "{project}/bin:{outside}:.:", "{outside}"),
        ("LD_LIBRARY_PATH", "{project}/lib:{outside}::lib", "{outside}"),
        (
            "LD_PRELOAD",
            "{project}/a.so {outside}/b.so:./c.so d.so",
            "{outside}/b.so:d.so",
        ),
        ("GCONV_PATH", "{project}", ""),
        ("BASH_ENV", "{project}/x", None),
        ("BASH_FUNC_exec%%", "() {{ touch x; }}", None),
        ("HOME", "{project}", "{project}"),
    ],
)
async def test_our_programs_load_nothing_of_the_working_folder_and_commands_what_they_did(
    project: Path,
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    trusted: str | None,
) -> None:
    def put(text: str) -> str:
        return text.format(project=project, outside=outside)

    env = {"PATH": os.environ["PATH"], name: put(value)}
    assert trusted_environment(env).get(name) == (
        None if trusted is None else put(trusted)
    )
    async with sandbox_in(project, "bubblewrap") as made:
        entered = made.sandbox.entered(["printenv", name], env)
        assert (
            "PATH"
            not in made.sandbox.entered(
                ["true"], {name: "x"} if name != "PATH" else {}
            ).env
        )
    if name not in ("PATH", "HOME"):
        assert entered.env.get(name) == (None if trusted is None else put(trusted))
        assert entered.argv[-4:-2] == ["/usr/bin/env", f"{name}={put(value)}"]


async def test_the_commands_of_the_model_have_the_users_path(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{project / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    assert (
        await call(tool_context(project), BashTool.name, command="echo $PATH")
    ).text == f"{path}\n"


# --- what Foldline is started from ----------------------------------------------------------------------


@pytest.fixture
def own(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run Foldline in a virtual environment of the project, with another folder on PATH."""
    for name in (
        ".venv/bin",
        ".venv/lib",
        "deep/node_modules/tools",
        "tools",
        "venv/lib",
    ):
        (project / name).mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(project / "venv"))
    set_path(monkeypatch, project / ".venv" / "bin", "tools", ".", os.environ["PATH"])
    return project


def test_what_foldline_is_started_from_is_never_changed_unasked(own: Path) -> None:
    for name in ("venv/lib/new.py", "venv/pyvenv.cfg", "tools/new", ".venv/bin/python"):
        assert not may_be_changed(own / name, own), name
    assert may_be_changed(own / "src" / "a.py", own)
    assert may_be_changed(own / "venv.txt", own)


def test_work_on_foldline_itself_asks() -> None:
    package = Path(programs.__file__).parent
    for folder in (package.parents[1], package, package / "agent"):
        assert not may_be_changed(package / "agent" / "turn.py", folder)
    assert own_places([str(package / "agent")]) == [str(package / "agent")]


async def test_in_the_sandbox_what_foldline_is_started_from_stays_as_it_is(
    own: Path,
) -> None:
    async with sandbox_in(own, "bubblewrap") as made:
        await made.run(
            "touch venv/lib/new.py tools/new .venv/bin/new .venv/lib/new a.py"
        )
        await made.run(
            "mv venv other; mv .venv other; mv tools other; mkdir venv && touch venv/new"
        )
    assert not list(own.rglob("new.py")) and not (own / "other").exists()
    assert [path.name for path in own.rglob("new")] == ["new"], (
        "only that of .venv/lib, which is not on PATH"
    )
    assert (own / "a.py").exists()


@pytest.mark.slow
def test_the_workers_of_an_evaluation_take_no_module_of_the_working_folder(
    project: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from foldline_eval.corpus import processes\n"
        "if __name__ == '__main__':\n"
        "    with processes(1) as pool:\n"
        "        print(pool.submit(abs, -1).result())\n"
    )
    (project / "multiprocessing.py").write_text("open('ran', 'w')\n")
    done = subprocess.run(
        [sys.executable, script],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
    assert not (project / "ran").exists()


def test_python_m_foldline_takes_no_module_of_the_working_folder(
    project: Path, tmp_path: Path
) -> None:
    for name in ("json", "platformdirs", "pydantic", "shutil"):
        (project / f"{name}.py").write_text("open('ran', 'w')\n")
    env = {**os.environ, "FOLDLINE_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "foldline", "sessions"]
    done = subprocess.run(
        command, cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (project / "ran").exists()


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("variable", ["PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME"])
def test_our_helpers_take_no_module_of_the_working_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in (
        "json",
        "runpy",
        "sitecustomize",
        "usercustomize",
        "pathspec",
        "foldline",
    ):
        (project / f"{name}.py").write_text("open('ran', 'w')\n")
    monkeypatch.setattr(sys, "path", [str(project), *sys.path])
    command = python_command(
        "foldline.agent.tools.pygrep", '{"pattern":"x","root":".","ignore_case":false}'
    )
    done = subprocess.run(
        command,
        cwd=project,
        env={**os.environ, variable: str(project)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert not (project / "ran").exists()
