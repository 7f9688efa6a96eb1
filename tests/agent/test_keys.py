"""Keys: where they come from, how they are kept, and that no sentence holds one."""

import os
from pathlib import Path

import pytest

from foldline.agent.api_keys import key_of, keys_file, save_key, secret_variables
from foldline.agent.settings import load_settings
from foldline.agent.tools.process import environment
from foldline.llm.providers import PROVIDERS
from foldline.protocol import FoldlineError

PLANTED = "sk-planted-91ab27cd"
DEEPSEEK = PROVIDERS["deepseek"]


def home(folder: Path) -> dict[str, str]:
    return {"FOLDLINE_HOME": str(folder / "home")}


def test_a_key_is_kept_for_its_owner_alone_and_found_again(tmp_path: Path) -> None:
    environ = home(tmp_path)
    assert not key_of(DEEPSEEK, environ).value
    path = save_key(environ, DEEPSEEK, f" {PLANTED}\n")
    save_key(environ, PROVIDERS["openai-responses"], "sk-two")
    assert (key_of(DEEPSEEK, environ).value, key_of(DEEPSEEK, environ).origin) == (PLANTED, str(path))
    assert key_of(PROVIDERS["openai"], environ).value == "sk-two"
    assert not key_of(PROVIDERS["groq"], environ).value
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["keys.toml"]


def test_the_environment_goes_first_and_the_usual_name_before_others(tmp_path: Path) -> None:
    environ = home(tmp_path)
    save_key(environ, PROVIDERS["gemini"], PLANTED)
    assert key_of(PROVIDERS["gemini"], {**environ, "GOOGLE_API_KEY": "g"}).origin == "GOOGLE_API_KEY"
    both = {**environ, "GOOGLE_API_KEY": "g", "GEMINI_API_KEY": "h"}
    assert key_of(PROVIDERS["gemini"], both).value == "h"


def test_comments_beside_the_keys_stay(tmp_path: Path) -> None:
    path = save_key(home(tmp_path), DEEPSEEK, "one")
    path.write_text('# work\n[keys]\ndeepseek = "one"  # mine\n')
    save_key(home(tmp_path), PROVIDERS["groq"], "two")
    assert path.read_text() == '# work\n[keys]\ndeepseek = "one"  # mine\ngroq = "two"\n'


@pytest.mark.skipif(os.name != "posix", reason="others are told apart by modes only there")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_file_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    environ = home(tmp_path)
    path = save_key(environ, DEEPSEEK, PLANTED)
    path.chmod(mode)
    for use in (lambda: key_of(DEEPSEEK, environ), lambda: save_key(environ, DEEPSEEK, "new")):
        with pytest.raises(FoldlineError, match="chmod 600") as refused:
            use()
        assert PLANTED not in str(refused.value)


@pytest.mark.parametrize(
    "text", [f"[keys]\ndeepseek = {PLANTED}\n", f'keys = "{PLANTED}"\n', "[keys]\ndeepseek = 5\n", "\xff"]
)
def test_a_file_that_holds_no_keys_says_so_without_repeating_it(tmp_path: Path, text: str) -> None:
    path = save_key(home(tmp_path), DEEPSEEK, "one")
    path.write_text(text, encoding="latin-1")
    with pytest.raises(FoldlineError, match=r"keys\.toml") as refused:
        key_of(DEEPSEEK, home(tmp_path))
    assert PLANTED not in str(refused.value)


@pytest.mark.parametrize("key", ["two words", "sk-é", "sk-\x07x"])
def test_what_no_header_can_hold_is_refused_without_repeating_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(FoldlineError, match="DEEPSEEK_API_KEY") as refused:
        key_of(DEEPSEEK, {**home(tmp_path), "DEEPSEEK_API_KEY": key})
    assert key not in str(refused.value)
    with pytest.raises(FoldlineError, match="What was entered"):
        save_key(home(tmp_path), DEEPSEEK, key)
    assert not keys_file(home(tmp_path)).exists()


def test_a_folder_nobody_can_write_to_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(FoldlineError, match=r"keys\.toml cannot be (read|written)"):
        save_key(home(tmp_path), DEEPSEEK, PLANTED)


def test_commands_get_nobody_s_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(
        '[providers.mine]\nbase_url = "http://box:1/v1"\nkey_env = "MY_OWN_KEY"\n'
    )
    load_settings(tmp_path, home(tmp_path))
    for name in (*secret_variables(), "MY_OWN_KEY"):
        monkeypatch.setenv(name, PLANTED)
    assert {"OPENAI_API_KEY", "XAI_API_KEY", "GOOGLE_API_KEY", "MY_OWN_KEY"} <= secret_variables()
    assert PLANTED not in environment().values()
