"""`foldline archive`: sessions that lists leave out from now on, or list again."""

from pathlib import Path

from foldline.history import archive, data_home, find_session, short_id, unarchive

from .output import say, say_json


def run(sources: list[str], back: bool, as_json: bool) -> int:
    home = data_home()
    paths = dict.fromkeys(find_session(home, source) for source in sources)
    moved: list[Path] = []
    try:  # one that cannot be moved does not keep back what was done before it
        for path in paths:
            moved.append(unarchive(home, path) if back else archive(home, path))
            if not as_json:
                _tell(short_id(path.parent.name), back)
    finally:
        if as_json:
            say_json([{"id": path.parent.name, "archived": not back, "path": str(path)} for path in moved])
    return 0


def _tell(ref: str, back: bool) -> None:
    if back:
        say(f"{ref} is among the sessions again.")
    else:
        say(f"{ref} is archived: `foldline archive --back {ref}` lists it again.")
