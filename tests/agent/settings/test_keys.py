"""Keys: where they come from, how they are kept, and that no sentence holds one."""

import os
import sys
from pathlib import Path

import pytest

from foldline.agent.settings import api_keys
from foldline.agent.settings.api_keys import (
    EXITED,
    NO_KEY_PRINTED,
    NO_OUTPUT,
    NOT_RUN,
    TIMED_OUT,
    TYPED_KEY,
    key_of,
    key_origin,
    keys_file,
    mask_of,
    save_key,
    secret_variables,
)
from foldline.agent.settings.model_choice import provider_source
from foldline.agent.settings.settings import load_settings
from foldline.agent.tools.process import environment
from foldline.llm.providers import PROVIDERS, Provider
from foldline.protocol import FoldlineError
from support.trust import bring

pytestmark = pytest.mark.usefixtures("data_folder")

PLANTED = "sk-planted-91ab27cd"
DEEPSEEK = PROVIDERS["deepseek"]


def home(folder: Path) -> dict[str, str]:
    return {"FOLDLINE_HOME": str(folder / "home")}


def test_a_key_is_kept_for_its_owner_alone_and_found_again(tmp_path: Path) -> None:
    environ = home(tmp_path)
    assert not key_of(DEEPSEEK, environ).value
    path = save_key(environ, DEEPSEEK, f" {PLANTED}\n")
    save_key(environ, PROVIDERS["openai-responses"], "sk-two")
    assert (key_of(DEEPSEEK, environ).value, key_of(DEEPSEEK, environ).origin) == (
        PLANTED,
        str(path),
    )
    assert key_of(PROVIDERS["openai"], environ).value == "sk-two"
    assert not key_of(PROVIDERS["groq"], environ).value
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["keys.toml"]


def test_the_environment_goes_first_and_the_usual_name_before_others(
    tmp_path: Path,
) -> None:
    environ = home(tmp_path)
    save_key(environ, PROVIDERS["gemini"], PLANTED)
    assert (
        key_of(PROVIDERS["gemini"], {**environ, "GOOGLE_API_KEY": "g"}).origin
        == "GOOGLE_API_KEY"
    )
    both = {**environ, "GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "h"}
    assert key_of(PROVIDERS["gemini"], both).value == "h"


def test_comments_beside_the_keys_stay(tmp_path: Path) -> None:
    path = save_key(home(tmp_path), DEEPSEEK, "one")
    path.write_text('# work\n[keys]\ndeepseek = "one"  # mine\n')
    save_key(home(tmp_path), PROVIDERS["groq"], "two")
    assert (
        path.read_text() == '# work\n[keys]\ndeepseek = "one"  # mine\ngroq = "two"\n'
    )


def test_an_empty_key_removes_the_one_before_and_leaves_the_others_and_the_comments(
    tmp_path: Path,
) -> None:
    path = save_key(home(tmp_path), DEEPSEEK, "one")
    path.write_text('# work\n[keys]\ndeepseek = "one"\ngroq = "two"  # mine\n')
    for _ in range(2):
        save_key(home(tmp_path), DEEPSEEK, "")
        assert path.read_text() == '# work\n[keys]\ngroq = "two"  # mine\n'


@pytest.mark.skipif(
    os.name != "posix", reason="others are told apart by modes only there"
)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    environ = home(tmp_path)
    path = save_key(environ, DEEPSEEK, PLANTED)
    path.chmod(mode)
    for use in (
        lambda: key_of(DEEPSEEK, environ),
        lambda: save_key(environ, DEEPSEEK, "new"),
    ):
        with pytest.raises(FoldlineError, match="chmod 600") as refused:
            use()
        assert PLANTED not in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        f"[keys]\ndeepseek = {PLANTED}\n",
        f'keys = "{PLANTED}"\n',
        "[keys]\ndeepseek = 5\n",
        "\xff",
    ],
)
def test_a_file_that_holds_no_keys_says_so_without_repeating_it(
    tmp_path: Path, text: str
) -> None:
    path = save_key(home(tmp_path), DEEPSEEK, "one")
    path.write_text(text, encoding="latin-1")
    with pytest.raises(FoldlineError, match=r"keys\.toml") as refused:
        key_of(DEEPSEEK, home(tmp_path))
    assert PLANTED not in str(refused.value)


@pytest.mark.parametrize("key", ["two words", "sk-é", "sk-\x07x"])
def test_what_no_header_can_hold_is_refused_without_repeating_it(
    tmp_path: Path, key: str
) -> None:
    with pytest.raises(FoldlineError, match="DEEPSEEK_API_KEY") as refused:
        key_of(DEEPSEEK, {**home(tmp_path), "DEEPSEEK_API_KEY": key})
    assert key not in str(refused.value)
    with pytest.raises(FoldlineError, match=TYPED_KEY):
        save_key(home(tmp_path), DEEPSEEK, key)
    assert not keys_file(home(tmp_path)).exists()


def test_a_folder_nobody_can_write_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(FoldlineError, match=r"keys\.toml cannot be (read|written)"):
        save_key(home(tmp_path), DEEPSEEK, PLANTED)


def test_commands_get_nobody_s_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(
        '[providers.mine]\nbase_url = "http://box:1/v1"\nkey_env = "MY_OWN_KEY"\n'
    )
    load_settings(tmp_path, home(tmp_path))
    for name in (*secret_variables(), "MY_OWN_KEY"):
        monkeypatch.setenv(name, PLANTED)
    assert {
        "OPENAI_API_KEY",
        "XAI_API_KEY",
        "GOOGLE_API_KEY",
        "MY_OWN_KEY",
    } <= secret_variables()
    assert PLANTED not in environment().values()


# --- a program that prints it ---------------------------------------------------------------------------


def printing(folder: Path, program: str, provider: str = "box") -> dict[str, str]:
    """Settings whose provider has its key from this Python program, which notes each of its runs."""
    folder.mkdir(exist_ok=True)
    (folder / "key.py").write_text(
        f"open({str(folder / 'runs')!r}, 'a').write('x')\n{program}\n"
    )
    command = f"{sys.executable} '{folder / 'key.py'}' $HOME"
    (folder / "config.toml").write_text(
        f'[providers.{provider}]\nbase_url = "http://box.local:1/v1"\nkey_env = "BOX_KEY"\n'
        f'key_command = """{command}"""\n'
    )
    return {"FOLDLINE_HOME": str(folder)}


def box(environ: dict[str, str], folder: Path) -> Provider:
    found = load_settings(folder, environ).provider_named("box")
    assert found is not None
    return found


def test_a_program_prints_the_key_and_is_run_once_without_a_shell(
    tmp_path: Path,
) -> None:
    environ = printing(
        tmp_path,
        f"import sys; print({PLANTED!r}, sys.argv[1:] == ['$HOME'] or 'x', sep='\\n')",
    )
    for _ in range(2):
        key = key_of(box(environ, tmp_path), environ)
        assert (key.value, key.origin) == (PLANTED, "providers.box.key_command")
    assert (tmp_path / "runs").read_text() == "x"
    assert mask_of(environ)(f"it said {PLANTED}") == "it said [key]"


def test_the_variable_goes_before_the_program_and_the_program_before_the_file(
    tmp_path: Path,
) -> None:
    environ = printing(tmp_path, "print('from-program-1')")
    provider = box(environ, tmp_path)
    save_key(environ, provider, "from-file-1")
    assert key_of(provider, environ | {"BOX_KEY": "from-env-1"}).value == "from-env-1"
    assert not (tmp_path / "runs").exists()
    assert key_of(provider, environ).value == "from-program-1"


def test_saying_where_a_key_comes_from_runs_no_program(tmp_path: Path) -> None:
    environ = printing(tmp_path, "print('k')")
    assert key_origin(box(environ, tmp_path), environ) == "providers.box.key_command"
    settings = load_settings(tmp_path, environ, {"provider": "box"})
    asked = provider_source(settings, environ)
    assert asked is not None and asked.key_from == "providers.box.key_command"
    assert "key.py" not in str(settings.values())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (f"print({PLANTED!r}); raise SystemExit(3)", EXITED.format(code=3)),
        ("", NO_OUTPUT),
        (f"print(); print({PLANTED!r})", NO_OUTPUT),
        (
            f"print({PLANTED!r}, flush=True); import time; time.sleep(60)",
            TIMED_OUT.format(seconds=1),
        ),
        (
            f"import sys; print({PLANTED!r}, file=sys.stderr); sys.exit(1)",
            EXITED.format(code=1),
        ),
    ],
)
def test_a_program_without_a_key_is_one_sentence_that_repeats_nothing(
    tmp_path: Path, program: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_keys, "_COMMAND_SECONDS", 1 if "sleep" in program else 30)
    environ = printing(tmp_path, program)
    with pytest.raises(FoldlineError) as failed:
        key_of(box(environ, tmp_path), environ)
    setting = "providers.box.key_command"
    assert str(failed.value) == NO_KEY_PRINTED.format(origin=setting, problem=why)


@pytest.mark.parametrize("command", ["no-such-program-here show box", "'unclosed"])
def test_what_is_no_program_is_one_sentence(command: str) -> None:
    with pytest.raises(FoldlineError, match=NOT_RUN.partition("(")[0]):
        api_keys.printed_key(command, "providers.box.key_command")


def test_a_project_may_not_name_a_program(tmp_path: Path) -> None:
    bring(
        tmp_path / ".foldline.toml", '[providers.openai]\nkey_command = "sh -c true"\n'
    )
    with pytest.raises(
        FoldlineError, match=r"a project cannot set providers[.]openai[.]key_command"
    ):
        load_settings(tmp_path, home(tmp_path))
