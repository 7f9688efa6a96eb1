"""Where one agent works: a home of its own, a small project to work on, and the scripted model."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .wires import Json

FILES = ("harbour", "bridge", "lantern")
START_TIMEOUT = 20
RUN_TIMEOUT = 240
KEPT_VARIABLES = ("LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")
TESTS = Path(__file__).parent.parent


class RunError(Exception):
    """Why an agent did not run to the end, in one sentence."""


class Workspace:
    """Folders, environment and model of one run. As a context manager it starts and ends the model."""

    def __init__(
        self, folder: Path, programs: Sequence[Path], window: int = 200_000
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.window = window
        self._programs = programs
        self._model: subprocess.Popen[bytes] | None = None
        self.environment: dict[str, str] = {}
        for each in (self.home, self.work, self.folder / "model"):
            each.mkdir(parents=True)
        self._write_project()

    def _write_project(self) -> None:
        for name in FILES:
            lines = (
                f"setting {number} of {name} has the value {number * 7}\n"
                for number in range(1, 201)
            )
            (self.work / f"{name}.txt").write_text("".join(lines))
        (self.work / "AGENTS.md").write_text("Keep answers short.\n")
        git = ["git", "-c", "user.name=Tester", "-c", "user.email=tester@localhost"]
        for command in (
            ["init", "--quiet"],
            ["add", "-A"],
            ["commit", "--quiet", "-m", "Add settings"],
        ):
            subprocess.run(
                [*git, *command], cwd=self.work, check=True, capture_output=True
            )

    def __enter__(self) -> Self:
        kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        path = os.pathsep.join(
            (*map(str, self._programs), "/usr/local/bin", "/usr/bin", "/bin")
        )
        self.environment = {
            **kept,
            "PATH": path,
            "HOME": str(self.home),
            "TERM": "xterm-256color",
        }
        command = [
            sys.executable,
            "-m",
            "other_agents.model",
            str(self.folder / "model"),
        ]
        self._model = subprocess.Popen(
            [*command, "--work", str(self.work), "--window", str(self.window)],
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        port = self.folder / "model" / "port"
        limit = time.monotonic() + START_TIMEOUT
        while not port.exists():
            if time.monotonic() > limit:
                raise RunError("the scripted model did not start")
            time.sleep(0.05)
        self.address = f"http://127.0.0.1:{port.read_text()}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._model is not None:
            self._model.kill()
            self._model.wait()

    def write(self, path: str, data: str | Json) -> Path:
        """Write a settings file below the home folder: text, or JSON."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data if isinstance(data, str) else json.dumps(data, indent=1))
        return file

    def set(self, variables: Mapping[str, str]) -> None:
        """Set variables of the agent's environment."""
        self.environment.update(variables)

    def run(self, *command: str) -> str:
        """Run a command in the project, and return its output.

        Raises:
            RunError: it failed, or did not end in time.
        """
        try:
            ran = subprocess.run(
                command,
                cwd=self.work,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=RUN_TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise RunError(f"{command[0]} did not end within {RUN_TIMEOUT} s") from None
        with (self.folder / "output.txt").open("a", encoding="utf-8") as log:
            log.write(
                f"$ {' '.join(command)}\n{ran.stdout}{ran.stderr}[{ran.returncode}]\n"
            )
        if ran.returncode:
            raise RunError(
                f"{command[0]} ended with {ran.returncode}: {ran.stderr.strip()[-200:]}"
            )
        return ran.stdout

    def requests(self) -> list[Json]:
        """The requests so far, oldest first."""
        log = self.folder / "model" / "requests.jsonl"
        if not log.exists():
            return []
        return [json.loads(line) for line in log.read_text().splitlines()]

    def summaries(self) -> int:
        """How many summaries it has asked for."""
        return sum(request.get("purpose") == "summary" for request in self.requests())

    def newest(self, pattern: str) -> Path:
        """The file below the home folder that was written last, among those that match.

        Raises:
            RunError: there is none.
        """
        found = sorted(self.home.glob(pattern), key=lambda path: path.stat().st_mtime)
        if not found:
            raise RunError(f"it wrote no session file: no {pattern}")
        return found[-1]
