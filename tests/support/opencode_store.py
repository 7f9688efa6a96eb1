"""opencode's session storage: its folder of files, and its database."""

import json
import sqlite3
from pathlib import Path
from typing import Any

Json = dict[str, Any]
TABLES = """
CREATE TABLE session (id text PRIMARY KEY, project_id text, parent_id text, directory text, title text,
  revert text, time_created integer, time_updated integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, time_updated integer,
  data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, time_created integer, data text);
"""


def export_document(
    session: str = "ses_1", title: str = "The clock", updated: int = 2000, **info: Any
) -> Json:
    """A session as `opencode export` writes it: prompt, call, result, answer."""
    about = {"id": session, "projectID": "p", "directory": "/x", "title": title, "version": "1.2",
             "time": {"created": 1000, "updated": updated}, **info}  # fmt: skip
    run = {"status": "completed", "input": {"filePath": "/x/a"}, "output": "one\ntwo", "metadata": {},
           "time": {"start": 1, "end": 2}}  # fmt: skip
    tokens = {
        "input": 10,
        "output": 2,
        "reasoning": 0,
        "cache": {"read": 5, "write": 0},
    }
    call = {"type": "tool", "tool": "read", "callID": "c1", "state": run}
    messages = [
        ({"role": "user", "time": {"created": 1100}}, [{"type": "text", "text": "look"}]),
        (
            {"role": "assistant", "modelID": "m", "time": {"created": 1200}, "finish": "tool-calls"},
            [{"type": "step-start"}, call, {"type": "step-finish", "reason": "tool-calls", "tokens": tokens}],
        ),
        ({"role": "assistant", "modelID": "m", "time": {"created": 1300}, "finish": "stop"},
         [{"type": "text", "text": "Done."}]),
    ]  # fmt: skip
    return {
        "info": about,
        "messages": [
            {
                "info": {**message, "id": f"msg_{session}_{nth}", "sessionID": session},
                "parts": [
                    {**part, "id": f"prt_{session}_{nth}_{at}"}
                    for at, part in enumerate(parts)
                ],
            }
            for nth, (message, parts) in enumerate(messages)
        ],
    }


def store_in_files(store: Path, document: Json) -> Path:
    """Write a session's messages and parts as opencode does; return the session's file."""
    info = document["info"]
    for message in document["messages"]:
        write_json(
            store / "message" / info["id"] / f"{message['info']['id']}.json",
            message["info"],
        )
        for part in message["parts"]:
            write_json(
                store / "part" / message["info"]["id"] / f"{part['id']}.json", part
            )
    return write_json(store / "session" / "p" / f"{info['id']}.json", info)


def write_json(path: Path, value: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2))
    return path


def store_in_database(
    path: Path, *documents: Json, wal: bool = False
) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path)
    if wal:
        database.execute("PRAGMA journal_mode=WAL")
    database.executescript(TABLES)
    for document in documents:
        info = document["info"]
        database.execute(
            "INSERT INTO session VALUES (?, 'p', ?, ?, ?, NULL, ?, ?)",
            (
                info["id"],
                info.get("parentID"),
                info["directory"],
                info["title"],
                *info["time"].values(),
            ),
        )
        for message in document["messages"]:
            about = {
                key: value
                for key, value in message["info"].items()
                if key not in ("id", "sessionID")
            }
            at = about["time"]["created"]
            row = (message["info"]["id"], info["id"], at, at, json.dumps(about))
            database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?)", row)
            for part in message["parts"]:
                inside = json.dumps(
                    {key: value for key, value in part.items() if key != "id"}
                )
                row = (part["id"], message["info"]["id"], info["id"], at, inside)
                database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", row)
    database.commit()
    return database
