"""Loads prompts: the user's own file first, then ours; the conversation's language before English."""

import os
from functools import lru_cache
from pathlib import Path

from foldline.context.language import Language
from foldline.data import config_dir, data_dir
from foldline.protocol import FoldlineError, system_words


@lru_cache(maxsize=64)
def load_prompt(name: str, language: Language = "en") -> str:
    """The text of `prompts/<name>.md`.

    Raises:
        FoldlineError: there is no such prompt, or it cannot be read.
    """
    folders = [config_dir(os.environ) / "prompts", data_dir("prompts")]
    languages = [folder / language for folder in folders] if language != "en" else []
    for folder in [*languages, *folders]:
        text = _read(folder / f"{name}.md")
        if text is not None:
            return text
    raise FoldlineError(f"The prompt {name}.md is missing from {folders[-1]}: reinstall Foldline.")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FoldlineError(f"The prompt {path} cannot be read: {system_words(error)}.") from None
    except UnicodeDecodeError:
        raise FoldlineError(f"The prompt {path} is not UTF-8 text.") from None
