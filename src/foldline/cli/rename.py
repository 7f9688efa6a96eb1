"""`foldline rename`: another title for a session, as one more entry of its history."""

from foldline.history import Session, data_home, find_session, short_id, title_entry

from .arguments import UsageError
from .loop import run_async
from .output import say, say_json


def run(source: str, title: list[str], as_json: bool) -> int:
    entry = title_entry(" ".join(title))
    if entry is None:
        raise UsageError("The title is empty: nothing was renamed.")
    session = Session.open(find_session(data_home(), source))
    before = session.meta().title
    try:
        run_async(session.append(entry, durable=True))
        session.save_meta()
    finally:
        session.close()
    if as_json:
        say_json({"id": session.id, "title": entry.title, "before": before, "path": str(session.path)})
        return 0
    was = f" (before: {before})" if before and before != entry.title else ""
    say(f"{short_id(session.id)} is called “{entry.title}” now{was}.")
    return 0
