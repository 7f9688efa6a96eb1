"""Installs one agent at one version: npm packages into a folder, Python packages into an environment.

What is installed stays, and is not looked at again. `FOLDLINE_AGENTS` names the folder for all of it.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NODE = "24.21.0"
TIMEOUT = 600
READY = ".installed"


def root() -> Path:
    """The folder that keeps installed agents and the runs of the last time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(
        os.environ.get("FOLDLINE_AGENTS") or cache / "foldline-agents"
    ).absolute()


@dataclass(frozen=True)
class Npm:
    """npm packages, each with its version; they run under a Node.js that is installed the same way."""

    packages: tuple[str, ...]

    def into(self, folder: Path) -> None:
        path = os.pathsep.join((str(node_folder()), os.environ.get("PATH", "")))
        _npm(folder, self.packages, {**os.environ, "PATH": path})

    def programs(self, folder: Path) -> tuple[Path, ...]:
        """The folders of its programs."""
        return (folder / "node_modules" / ".bin", node_folder())


@dataclass(frozen=True)
class Pip:
    """A Python package in an environment of its own, made by the first of `pythons` that is found."""

    package: str
    pythons: tuple[str, ...]

    def into(self, folder: Path) -> None:
        python = next(
            (found for name in self.pythons if (found := _python(name))), None
        )
        if python is None:
            raise InstallError(f"needs Python {' or '.join(self.pythons)}")
        _run([python, "-m", "venv", "--clear", str(folder)])
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        _run([*pip, "--disable-pip-version-check", self.package])

    def programs(self, folder: Path) -> tuple[Path, ...]:
        """The folders of its programs."""
        return (folder / "bin",)


class InstallError(Exception):
    """Why an agent cannot be installed, in one sentence."""


def installed(name: str, packages: Npm | Pip) -> Path:
    """The folder of an agent, which is installed if it is not there yet.

    Raises:
        InstallError: it cannot be installed here.
    """
    folder = root() / "installed" / name
    if not (folder / READY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        packages.into(folder)
        (folder / READY).touch()
    return folder


def node_folder() -> Path:
    """The folder of the `node` that the agents run under."""
    folder = root() / "installed" / f"node-{NODE}"
    if not (folder / READY).exists():
        _npm(folder, (f"node@{NODE}",), dict(os.environ))
        (folder / READY).touch()
    return folder / "node_modules" / "node" / "bin"


def _npm(folder: Path, packages: tuple[str, ...], environment: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--no-audit", "--no-fund", "--silent", "--prefix", str(folder)]
    _run(["npm", "install", *options, *packages], environment)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    try:
        ran = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise InstallError(f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise InstallError(
            f"installing took more than {TIMEOUT // 60} minutes"
        ) from None
    if ran.returncode:
        sys.stderr.write(ran.stdout[-2_000:] + ran.stderr[-2_000:])
        raise InstallError(f"{Path(command[0]).name} failed with {ran.returncode}")


def _python(version: str) -> str | None:
    """A Python of this version: on the path, else pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    candidates = sorted(pyenv.glob(f"{version}.*/bin/python"))
    on_path = shutil.which(f"python{version}")
    for candidate in (*([on_path] if on_path else []), *map(str, candidates)):
        check = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        ran = subprocess.run(check, capture_output=True, text=True, check=False)
        if ran.returncode == 0 and ran.stdout.strip() == version:
            return candidate
    return None
