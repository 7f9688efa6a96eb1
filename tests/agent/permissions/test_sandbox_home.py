"""Which entries of a home folder are private, and what of them builds need."""

import os
import sys
from pathlib import Path

import pytest

from foldline.agent.permissions.sandbox_home import (
    build_places,
    is_private,
    links_to,
    moved_keys,
    open_entries,
)

HOME = Path("/home/me")


@pytest.mark.parametrize(
    ("name", "private"),
    [
        ("src/shop/.env", False),
        (".ssh/id_ed25519", True),
        (".what-is-installed-tomorrow/key", True),
        (".cargo/registry/src/a.rs", False),
        (".cargo/credentials.toml", True),
        (".cargo", True),
        (".cache/huggingface/hub/model", False),
        (".cache/huggingface/token", True),
        (".config/git/config", False),
        (".config/git/credentials", True),
        (".m2/repository/a.jar", False),
        (".m2/settings.xml", True),
        (".gradle/gradle.properties", True),
        (".rustup/toolchains/a", False),
        ("snap/firefox/common", sys.platform != "darwin"),
        ("Library/Caches/pip", False),
        ("Library/Cookies/a", sys.platform == "darwin"),
        ("snapshots/a", False),
    ],
)
def test_of_what_has_a_dot_only_what_builds_need_is_not_private(
    name: str, private: bool
) -> None:
    assert is_private(HOME / name, HOME) is private


def test_the_home_folder_itself_and_what_lies_elsewhere_is_not_private() -> None:
    assert not is_private(HOME, HOME)
    assert not is_private(Path("/srv/.ssh"), HOME)


def made(home: Path, *names: str) -> None:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")


def test_what_a_variable_moved_is_looked_for_in_its_place(tmp_path: Path) -> None:
    home, moved = tmp_path / "home", tmp_path / "cargo"
    made(home, ".cargo/config.toml")
    made(moved, "config.toml", "credentials.toml")
    found = build_places(home, {"CARGO_HOME": str(moved)})
    assert {*found} == {f"{home}/.cargo/config.toml", f"{moved}/config.toml"}
    assert moved_keys({"CARGO_HOME": str(moved)}) == [str(moved)]


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SHARED_CREDENTIALS_FILE", "KUBECONFIG", "NETRC", "PGPASSFILE", "NPM_CONFIG_USERCONFIG",
        "CODEX_HOME", "CLAUDE_CONFIG_DIR", "GNUPGHOME", "HISTFILE", "SSH_AUTH_SOCK", "GH_CONFIG_DIR",
        "PIP_CONFIG_FILE",
        "GOOGLE_APPLICATION_CREDENTIALS", "VAULT_TOKEN_PATH", "XDG_CONFIG_HOME", "PASSWORD_STORE_DIR",
    ],
)  # fmt: skip
def test_what_a_variable_of_this_name_names_may_hold_keys(name: str) -> None:
    assert moved_keys({name: "/data/place"}) == ["/data/place"]


@pytest.mark.parametrize(
    "name",
    ["PWD", "JAVA_HOME", "GIT_CONFIG_GLOBAL", "NPM_CONFIG_CACHE", "DATA_DIR", "EDITOR"],
)
def test_what_other_variables_name_is_no_key(name: str) -> None:
    assert moved_keys({name: "/data/place"}) == []
    assert moved_keys({"API_KEY": "no-path"}) == []


def test_what_git_includes_is_needed_whatever_its_name(tmp_path: Path) -> None:
    made(tmp_path, ".gitconfig-work", ".config/git/of-work", ".config/git/credentials")
    assert {*build_places(tmp_path, {})} == {
        f"{tmp_path}/.gitconfig-work",
        f"{tmp_path}/.config/git/of-work",
    }


def test_a_folder_of_programs_is_needed_and_never_the_home_folder_or_what_is_above_it(
    tmp_path: Path,
) -> None:
    tools = tmp_path / ".tools" / "bin"
    tools.mkdir(parents=True)
    path = os.pathsep.join(
        [str(tools), str(tmp_path), str(tmp_path.parent), "/", ".", "", f"{tmp_path}/"]
    )
    assert build_places(tmp_path, {"PATH": path, "GOPATH": str(tmp_path)}) == [
        str(tools)
    ]


def test_links_are_found_on_the_way_to_what_is_needed(tmp_path: Path) -> None:
    made(tmp_path, "data/bin/tool", "notes")
    (tmp_path / ".local").symlink_to("data")
    (tmp_path / "l").symlink_to(".ssh")
    found = links_to([f"{tmp_path}/.local/bin"], tmp_path)
    assert found == [(f"{tmp_path}/.local", "data"), (f"{tmp_path}/l", ".ssh")]
    assert open_entries(tmp_path) == [f"{tmp_path}/data", f"{tmp_path}/notes"]


def test_a_pipe_in_the_home_folder_is_not_shown(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert open_entries(tmp_path) == []


def test_of_a_crowded_home_folder_the_folders_come_first(tmp_path: Path) -> None:
    made(tmp_path, *(f"a{number}" for number in range(200)), "src/x")
    found = open_entries(tmp_path)
    assert len(found) == 100
    assert found[0] == f"{tmp_path}/src"
