"""The wheel, built and unpacked somewhere else: what travels in it is all it needs."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TOP = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's contents, as pip would lay them out."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(TOP),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=110)
    [wheel] = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def foldline(
    installed: Path, home: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """The installed program, run outside the checkout, with the checkout's own source out of reach."""
    code = (
        "import sys; from foldline.cli import main; import foldline; "
        f"assert foldline.__file__.startswith({str(installed)!r}), foldline.__file__; sys.exit(main())"
    )
    environ = {**os.environ, "PYTHONPATH": str(installed), "FOLDLINE_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=home,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_installed_wheel_answers_a_prompt_outside_the_checkout(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("first line\nlast line\n")
    done = foldline(installed, tmp_path, "run", "read notes.txt")
    assert done.returncode == 0, done.stderr
    assert "2 lines" in done.stdout


def test_an_installed_wheel_compacts_with_its_own_prompts(
    installed: Path, tmp_path: Path
) -> None:
    recording = installed / "foldline" / "tui" / "demo" / "recording.jsonl"
    done = foldline(
        installed,
        tmp_path,
        "compact",
        str(recording),
        "--window",
        "8k",
        "--out",
        "compacted.jsonl",
    )
    assert done.returncode == 0, done.stderr
    assert "## Goal" in done.stdout + (tmp_path / "compacted.jsonl").read_text()


def test_an_installed_wheel_has_its_themes(installed: Path, tmp_path: Path) -> None:
    assert {
        path.name
        for path in (installed / "foldline" / "_data" / "themes").glob("*.toml")
    } == {path.name for path in (TOP / "themes").glob("*.toml")}


def test_an_installed_wheel_has_the_evaluation_and_its_entry_point(
    installed: Path, tmp_path: Path
) -> None:
    [entry_points] = installed.glob("*.dist-info/entry_points.txt")
    assert (
        "[foldline.commands]\neval = foldline_eval.command:EVAL"
        in entry_points.read_text()
    )
    assert (installed / "foldline_eval" / "py.typed").exists()
    done = foldline(installed, tmp_path, "eval", "--help")
    assert done.returncode == 0, done.stderr
    assert "--strategies" in done.stdout
