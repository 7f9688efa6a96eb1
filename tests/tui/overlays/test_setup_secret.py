"""What is taken over of a pasted key, and that nothing shows it."""

import pytest

from foldline.tui.overlays.setup_servers import INVALID_KEY, Secret, cleaned_key
from support.setup_screen import KEY


@pytest.mark.parametrize(
    "pasted",
    [
        KEY,
        f"  {KEY}\n",
        f'"{KEY}"\r\n',
        f"'{KEY}' ",
        f"“{KEY}”",
    ],
)
def test_the_key_alone_is_kept_of_a_paste(pasted: str) -> None:
    assert cleaned_key(pasted) == KEY


@pytest.mark.parametrize(
    "key", ["c2VjcmV0==", "sk-or-v1-0a1b=", "gsk_bearer", "export"]
)
def test_a_key_that_looks_like_more_stays_whole(key: str) -> None:
    assert cleaned_key(key) == key


def test_nothing_that_prints_a_secret_shows_it() -> None:
    secret = Secret(KEY)
    assert secret.reveal() == KEY and len(secret) == len(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]} {vars(Secret).keys()}"
    assert secret == Secret(KEY) != Secret(KEY + "1")


@pytest.mark.parametrize("wrong", ["two words", "sk-é", "sk-\x07"])
def test_what_no_header_can_hold_is_no_key(wrong: str) -> None:
    assert Secret(wrong).fault == INVALID_KEY
    assert wrong not in Secret(wrong).fault


def test_a_key_has_no_fault() -> None:
    assert Secret(KEY).fault == ""
