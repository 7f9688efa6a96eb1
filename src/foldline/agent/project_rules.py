"""What the user allows in a project, whatever the session: kept in their data folder, never in the project.

`<data folder>/approvals/<folder name>-<hash>.json`. Whoever clones a project must not thereby agree to
anything; and a folder that takes the place of another one has to be asked about anew.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from foldline.data import data_home, real_path
from foldline.files import make_private, put_private, read_regular
from foldline.history.catalog.folders import FolderMark, mark_of
from foldline.history.paths import home_apart, workdir_key
from foldline.protocol import Rule
from foldline.protocol.base import Moment, Record

FOLDER = "approvals"
_MOST_BYTES = 1024 * 1024


class KeptRule(Record):
    """A rule, when it was granted, and the session it was granted in."""

    rule: Rule
    at: Moment | None = None
    session: str = ""


class _File(Record):
    type: Literal["approvals"] = "approvals"
    version: Literal[1] = 1
    cwd: str
    folder: FolderMark
    rules: tuple[KeptRule, ...] = ()


class ProjectRules:
    """The rules of one working folder. Read anew each time: what was revoked elsewhere no longer counts."""

    def __init__(self, cwd: Path | str, *, home: Path | None = None) -> None:
        self._cwd = real_path(cwd)
        self.path = (home or data_home()) / FOLDER / f"{workdir_key(cwd)}.json"

    def kept(self) -> tuple[KeptRule, ...]:
        """The rules in force, oldest first; none where the file cannot be trusted."""
        return self._read()[0]

    def rules(self) -> frozenset[Rule]:
        return frozenset(each.rule for each in self.kept())

    def known(self) -> tuple[frozenset[Rule], str]:
        """The rules in force, and why the file counts for nothing, where it does."""
        kept, fault = self._read()
        return frozenset(each.rule for each in kept), fault

    def fault(self) -> str:
        """Why the file counts for nothing, as a sentence; empty where it does, or there is none."""
        return self._read()[1]

    def grant(self, kept: KeptRule) -> None:
        """Keep one more rule. A file that counts for nothing is replaced.

        Raises:
            OSError: the disk refused; nothing has changed.
        """
        self._write(lambda rules: (*(each for each in rules if each.rule != kept.rule), kept))

    def revoke(self, rule: Rule) -> None:
        """Keep the rule no longer.

        Raises:
            OSError: the disk refused; nothing has changed.
        """
        self._write(lambda rules: tuple(each for each in rules if each.rule != rule))

    def _write(self, change: Callable[[tuple[KeptRule, ...]], tuple[KeptRule, ...]]) -> None:
        made = _File(cwd=self._cwd, folder=mark_of(self._cwd), rules=change(self.kept()))
        make_private(self.path.parent)
        data = made.model_dump_json(exclude_none=True, indent=1).encode()
        put_private(self.path, data, durable=True)

    def _read(self) -> tuple[tuple[KeptRule, ...], str]:
        where = f"What was always allowed in this project does not count: {home_apart(str(self.path))}"
        try:
            data = read_regular(self.path, _MOST_BYTES + 1)
            status = self.path.stat()
        except FileNotFoundError:
            return (), ""
        except OSError as error:
            return (), f"{where} cannot be read ({error.strerror or error})."
        if hasattr(os, "getuid") and not _is_ours(status):
            return (), f"{where} can be written by others than you; chmod 600 closes it."
        try:
            found = _File.model_validate_json(data[:_MOST_BYTES])
        except ValidationError:
            return (), f"{where} is damaged; the next rule you grant replaces it."
        if found.cwd != self._cwd or not _same_folder(found.folder, mark_of(self._cwd)):
            return (), f"{where} is about another folder that was here before; you are asked again."
        return found.rules, ""


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody but its user, or the system's, can have written a file."""
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _same_folder(then: FolderMark, now: FolderMark) -> bool:
    """Whether it is the folder it was; where the system cannot tell, the git remote must be the same."""
    return then.id == now.id and (bool(then.id) or then.remote == now.remote)
