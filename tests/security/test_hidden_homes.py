"""Keys in home folders that no list names: sandboxed commands see only the dot folders builds need."""

import asyncio
import os
from pathlib import Path

import pytest

from foldline.agent.permissions.sandbox import READ_ACCESS, WRITE_ACCESS
from foldline.agent.tools.process import environment
from support.sandboxes import EngineName, sandbox_in

pytestmark = pytest.mark.quick_cases(1)

KEY = "-----BEGIN A KEY THAT NOBODY MAY READ-----"
KEY_FILES = (
    ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".qwen/oauth_creds.json", ".kimi/config",
    ".local/share/opencode/auth.json", ".config/github-copilot/apps.json", ".config/Code/User/settings.json",
    ".var/app/org.mozilla.firefox/.mozilla/key4.db", "snap/chromium/common/Cookies", ".config/Slack/Cookies",
    ".config/Signal/config.json", ".local/share/TelegramDesktop/tdata/key", ".thunderbird/x/logins.json",
    ".npmrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".cargo/credentials.toml", ".m2/settings.xml",
    ".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".bundle/config", ".cache/huggingface/token",
    ".terraformrc", ".terraform.d/credentials.tfrc.json", ".pulumi/credentials.json", ".config/doctl/config",
    ".bash_history", ".mysql_history", ".sqlite_history", ".local/share/fish/fish_history", ".lesshst",
    ".config/git/credentials", ".android/adbkey", ".foundry/keystores/a", ".ipython/x/history.sqlite",
    ".what-is-installed-tomorrow/key",
)  # fmt: skip
BUILD_FILES = (
    ".cargo/config.toml", ".cargo/registry/a", ".rustup/a", ".m2/repository/a", ".gradle/caches/a", ".npm/a",
    ".cache/pip/a", ".cache/go-build/a", ".local/bin/tool", ".local/share/uv/a", ".gitconfig",
    ".config/git/ignore",
    "src/lib/a", "notes",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    write(home, *KEY_FILES, text=KEY)
    write(home, *BUILD_FILES, "shop/file", text="needed\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("FOLDLINE_HOME", str(home / "foldline"))
    return home


def write(home: Path, *names: str, text: str) -> None:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


ENGINES: tuple[EngineName, ...] = ("bubblewrap", "landlock")
CAT = 'for each; do cat "$HOME/$each"; done'


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_key_can_be_read_whether_or_not_a_list_names_it(
    home: Path, engine: EngineName
) -> None:
    async with sandbox_in(home / "shop", engine) as made:
        said = (
            await made.run(
                CAT + "; grep -rs BEGIN $HOME; cp -r $HOME copy; grep -rs BEGIN copy",
                *KEY_FILES,
            )
        ).text
    assert KEY not in said
    assert f"{KEY_FILES[0]}" in said, "it was tried"


@pytest.mark.parametrize("engine", ENGINES)
async def test_files_that_builds_need_can_be_read(
    home: Path, engine: EngineName
) -> None:
    async with sandbox_in(home / "shop", engine) as made:
        assert (await made.run(CAT, *BUILD_FILES)).text == "needed\n" * len(BUILD_FILES)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "new"])
async def test_a_key_rewritten_while_the_command_runs_cannot_be_read(
    home: Path, engine: EngineName, replaced: bool
) -> None:
    """Replacing a file by rename removes a mount on the old one."""
    name = ".claude.json" if replaced else ".newest"
    waits = 'echo x >begun; until test -e go; do sleep 0.01; done; cat "$HOME/$1"'
    async with sandbox_in(home / "shop", engine) as made:
        running = asyncio.ensure_future(made.run(waits, name))
        while not (home / "shop" / "begun").exists():
            await asyncio.sleep(0.01)
        (home / "draft").write_text(KEY)
        (home / "draft").rename(home / name)
        (home / "shop" / "go").touch()
        assert KEY not in (await running).text


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_link_leads_to_a_key(
    home: Path, engine: EngineName, tmp_path: Path
) -> None:
    """A link from a visible folder, and a dot folder that is a link."""
    write(tmp_path, "moved/gh/hosts.yml", text=KEY)
    write(tmp_path, "moved/go/env", text="needed\n")
    (home / ".config").rename(home / ".config-of-before")
    (home / ".config").symlink_to(tmp_path / "moved")
    (home / "keys").symlink_to(".codex")
    (home / "code").symlink_to("src")
    (home / ".gitconfig").rename(home / ".codex" / "gitconfig")
    (home / ".gitconfig").symlink_to(".codex/gitconfig")
    async with sandbox_in(home / "shop", engine) as made:
        names = ("keys/auth.json", ".config/gh/hosts.yml", "../moved/gh/hosts.yml")
        assert KEY not in (await made.run(CAT, *names)).text
        seen = await made.run(CAT, "code/lib/a", ".config/go/env", ".gitconfig")
        assert seen.text == "needed\n" * 3


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_key_at_a_path_from_a_variable_cannot_be_read(
    home: Path, engine: EngineName, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(
        home,
        "place/auth.json",
        "kube",
        "cargo/credentials.toml",
        "cfg/gh/hosts.yml",
        text=KEY,
    )
    write(home, "cargo/config.toml", text="needed\n")
    for name, place in (
        ("CODEX_HOME", "place"),
        ("KUBECONFIG", "kube"),
        ("CARGO_HOME", "cargo"),
        ("XDG_CONFIG_HOME", "cfg"),
    ):
        monkeypatch.setenv(name, str(home / place))
    async with sandbox_in(home / "shop", engine) as made:
        said = await made.run(
            CAT, "place/auth.json", "kube", "cargo/credentials.toml", "cfg/gh/hosts.yml"
        )
        assert KEY not in said.text
        assert (await made.run(CAT, "cargo/config.toml")).text == "needed\n"


async def test_the_home_folder_can_be_the_working_folder_with_its_keys_hidden(
    home: Path,
) -> None:
    async with sandbox_in(home, "bubblewrap") as made:
        assert KEY not in (await made.run(CAT, *KEY_FILES)).text
        assert (
            await made.run("echo x >new; cat .cargo/config.toml")
        ).text == "needed\n"
    assert (home / "new").exists()
    async with sandbox_in(home, "bubblewrap", may_change=False) as made:
        assert KEY not in (await made.run(CAT, *KEY_FILES)).text


async def test_a_project_in_a_dot_folder_is_visible_but_not_its_siblings(
    home: Path,
) -> None:
    write(
        home, ".dotfiles/.git/HEAD", ".dotfiles/part/a", ".dotfiles/b", text="needed\n"
    )
    for may_change in (True, False):
        async with sandbox_in(
            home / ".dotfiles" / "part", "bubblewrap", may_change=may_change
        ) as made:
            assert (await made.run("cat a ../b")).text == "needed\n" * 2
            assert KEY not in (await made.run(CAT, *KEY_FILES)).text


async def test_home_folders_of_other_users_are_invisible(home: Path) -> None:
    async with sandbox_in(home / "shop", "bubblewrap") as made:
        others = (await made.run("ls -A /home /root 2>/dev/null")).text.split()
    assert {".ssh", ".gitconfig", ".npmrc"}.isdisjoint(others)
    assert {*others} <= {
        "/home:",
        "/root:",
        ".cargo",
        ".pyenv",
        ".rustup",
        ".local",
        ".nvm",
    }, "folders on PATH"


async def test_a_folder_hidden_by_the_user_stays_hidden_even_if_builds_need_it(
    home: Path,
) -> None:
    async with sandbox_in(
        home / "shop", "bubblewrap", hidden=[str(home / ".cache"), str(home / "src")]
    ) as made:
        assert (
            await made.run("cat ~/.cache/pip/a ~/src/lib/a 2>&1 | grep -c needed")
        ).text == "0\n"


async def test_a_hidden_file_is_named_when_a_command_fails_to_find_it(
    home: Path,
) -> None:
    async with sandbox_in(home / "shop", "bubblewrap") as made:
        assert (await made.run("cat ~/.npmrc")).refused == READ_ACCESS.format(
            paths=home / ".npmrc"
        )
        assert (await made.run("cat ~/.no-such-file")).refused == ""
        assert (await made.run("echo x >~/.new")).refused == WRITE_ACCESS.format(
            paths=home / ".new"
        )


async def test_a_folder_the_user_added_is_visible_in_every_mode(home: Path) -> None:
    for may_change in (True, False):
        async with sandbox_in(
            home / "shop", "bubblewrap", writable=["~/.codex"], may_change=may_change
        ) as made:
            assert KEY in (await made.run(CAT, ".codex/auth.json")).text


async def test_a_search_of_the_home_folder_skips_keys(home: Path) -> None:
    async with sandbox_in(home / "shop", "bubblewrap") as made:
        words = ["/bin/grep", "-rs", "-e", "BEGIN", "-e", "needed", str(home)]
        entered = await asyncio.to_thread(
            made.sandbox.entered_search, words, environment(), str(home), []
        )
        child = await asyncio.create_subprocess_exec(
            *entered.argv, env=entered.env, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await child.communicate()
    assert KEY.encode() not in said
    assert f"{os.fspath(home)}/src/lib/a".encode() in said
