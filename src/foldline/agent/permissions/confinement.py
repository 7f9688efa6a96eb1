"""Types shared by the sandbox and the tools that run programs in it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from .sandbox_acting import ActingEntry

BLOCKED = "[the sandbox blocked {access}]"
CREATED = "[new files that other programs may execute: {paths}]"


class BlockedAccess(NamedTuple):
    """Access that the sandbox denied to a command, if it is known."""

    words: str
    """Description of the access, such as `network access: example.org; write access: /etc/hosts`."""
    hosts: tuple[str, ...] = ()
    """Hosts that the command requested from the proxy, if nothing else was denied."""


class SandboxReport(NamedTuple):
    """The sandbox's observations about a finished command."""

    blocked: BlockedAccess | None = None
    created: tuple[ActingEntry, ...] = ()
    """Files created by the command that other programs may run automatically."""

    @property
    def words(self) -> str:
        remarks = []
        if self.blocked:
            remarks.append(BLOCKED.format(access=self.blocked.words))
        if self.created:
            paths = ", ".join(entry.path for entry in self.created)
            remarks.append(CREATED.format(paths=paths))
        return "\n".join(remarks)


class Entered(NamedTuple):
    """Command line and environment for starting a program in the sandbox."""

    argv: list[str]
    env: Mapping[str, str]


class CommandSandbox(Protocol):
    """The sandbox as seen by tools that run programs in it; implemented by `sandbox.Sandbox`."""

    def entering(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        at: str | Path = "",
    ) -> AbstractAsyncContextManager[Entered]: ...

    def entered_search(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        real: str,
        programs: Sequence[str | Path],
    ) -> Entered: ...

    def report(
        self, output: str, *, failed: bool, is_asked: bool = False
    ) -> SandboxReport: ...
