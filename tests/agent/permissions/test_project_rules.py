"""The rules of a project: in the user's data folder, for this very folder, trusted only as it was written."""

import os
from pathlib import Path

import pytest

from foldline.agent.permissions.approvals import (
    DAMAGED,
    OTHER_FOLDER,
    WRITABLE,
    ProjectRule,
    ProjectRules,
)
from foldline.history import utc_now
from foldline.protocol import Rule

RULE, OTHER = (
    Rule(tool="bash", pattern="git status"),
    Rule(tool="bash", pattern="make a", exact=True),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    return tmp_path / "shop"


@pytest.fixture
def rules(tmp_path: Path, folder: Path) -> ProjectRules:
    rules = ProjectRules(folder, home=tmp_path / "home")
    rules.grant(ProjectRule(rule=RULE, at=utc_now(), session="s1"))
    return rules


def test_rules_are_kept_for_their_owner_only_outside_the_project(
    rules: ProjectRules, folder: Path
) -> None:
    assert rules.rules_and_fault()[0] == {RULE}
    assert rules.path.stat().st_mode & 0o777 == 0o600
    assert rules.path.parent.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []
    assert [path.name for path in rules.path.parent.iterdir()] == [rules.path.name]


def test_granting_adds_and_revoking_takes_away_in_any_number_of_processes(
    rules: ProjectRules, folder: Path, tmp_path: Path
) -> None:
    another = (
        ProjectRules(folder / "." / "..", home=tmp_path / "home"),
        ProjectRules(folder, home=tmp_path / "home"),
    )
    another[1].grant(ProjectRule(rule=OTHER))
    rules.grant(ProjectRule(rule=RULE, session="s2"))
    assert [kept.rule for kept in another[1].entries()] == [OTHER, RULE]
    assert not another[0].rules_and_fault()[0]
    rules.revoke(OTHER)
    rules.revoke(OTHER)
    assert another[1].rules_and_fault()[0] == {RULE}


def test_a_link_to_the_folder_is_the_folder(
    rules: ProjectRules, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert ProjectRules(tmp_path / "link", home=tmp_path / "home").rules_and_fault()[
        0
    ] == {RULE}


def test_a_folder_that_was_moved_or_replaced_is_asked_about_again(
    rules: ProjectRules, folder: Path, tmp_path: Path
) -> None:
    moved = folder.rename(tmp_path / "moved")
    assert not ProjectRules(moved, home=tmp_path / "home").rules_and_fault()[0]
    folder.mkdir()
    assert not rules.rules_and_fault()[0]
    assert OTHER_FOLDER in rules.fault()
    rules.grant(ProjectRule(rule=OTHER))
    assert (rules.rules_and_fault()[0], rules.fault()) == ({OTHER}, "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\x00",
        b'{"type":"approvals","version":2}',
        b"[" * 100_000,
        b"{}" * 2_000_000,
    ],
)
def test_a_damaged_file_grants_nothing_says_so_and_is_replaced_by_the_next_rule(
    rules: ProjectRules, content: bytes
) -> None:
    rules.path.write_bytes(content)
    assert not rules.rules_and_fault()[0]
    assert DAMAGED in rules.fault()
    rules.grant(ProjectRule(rule=OTHER))
    assert (rules.rules_and_fault()[0], rules.fault()) == ({OTHER}, "")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_grants_nothing(
    rules: ProjectRules, mode: int
) -> None:
    rules.path.chmod(mode)
    assert not rules.rules_and_fault()[0]
    assert WRITABLE in rules.fault()


def test_a_pipe_or_a_folder_in_its_place_holds_nobody_up(rules: ProjectRules) -> None:
    rules.path.unlink()
    os.mkfifo(rules.path)
    assert not rules.rules_and_fault()[0]
    assert rules.fault()
