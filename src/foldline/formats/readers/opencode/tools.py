"""Converts opencode's tool calls, with their results and file changes."""

from collections.abc import Sequence

from foldline.formats.base import JsonObject
from foldline.formats.parts import arguments_of, call_part, image_at
from foldline.formats.tool_results import (
    Changes,
    edit_of,
    moved,
    patched,
    read_file,
    together,
    tool_result,
    whole_file,
)
from foldline.protocol import (
    FileTouch,
    Part,
    ToolCallPart,
    ToolResultMessage,
    text_parts,
)

IMAGE = "image/"
"""Prefix of the media types of images."""
_PATCHING = ("patch", "apply_patch")


def call_in(part: JsonObject) -> ToolCallPart:
    arguments = part.at("state", "input") or part.text("state", "raw") or {}
    return call_part(part.first("callID", "id") or "call", part.text("tool"), arguments)


def result_in(part: JsonObject, call: ToolCallPart) -> ToolResultMessage | None:
    """Return a call's result.

    Returns None if the call has not finished.
    """
    state = part.object("state")
    metadata = state.object("metadata")
    code = metadata.get("exit")
    exit_code = code if type(code) is int else 0
    failed = True
    match state.get("status"):
        case "completed":
            text = state.text("output")
            failed = exit_code != 0
        case "error" if metadata.flag("interrupted") and metadata.text("output"):
            text = metadata.text("output")
        case "error":
            text = state.text("error")
        case _:
            return None
    parts: list[Part] = [*text_parts(text)]
    for file in state.objects("attachments"):
        image = (
            image_at(file.text("url")) if file.text("mime").startswith(IMAGE) else None
        )
        if image:
            parts.append(image)
    return tool_result(
        call.call_id,
        call.name,
        parts,
        failed=failed,
        exit_code=exit_code,
        changes=Changes() if failed else _changes(call, metadata, text),
        milliseconds=state.count("time", "end") - state.count("time", "start"),
        full_output=metadata.text("outputPath"),
    )


def _changes(call: ToolCallPart, metadata: JsonObject, output: str) -> Changes:
    arguments = arguments_of(call)
    path = arguments.text("filePath") or metadata.text("filepath")
    if call.name in _PATCHING:
        reports = [*metadata.objects("files"), metadata.object("filediff")]
        changes = together(_reported(report) for report in reports)
        return changes if changes.files else patched(arguments.text("patchText"))
    if not path:
        return Changes()
    match call.name:
        case "read":
            is_folder = metadata.at("display", "type") == "directory"
            if is_folder or "<type>directory</type>" in output[:1000]:
                return Changes()
            return read_file(path)
        case "write":
            changes = whole_file(path, arguments.text("content"))
            return (
                changes if metadata.get("exists") is False else Changes(changes.files)
            )
        case "edit" | "multiedit":
            return edit_of(
                path, metadata.text("diff") or metadata.text("filediff", "patch")
            )
        case _:
            return Changes()


def _reported(file: JsonObject) -> Changes:
    """Return the change that a patch reports for one file."""
    path = file.first("filePath", "file")
    edit = moved(edit_of(path, file.first("diff", "patch")), file.text("movePath"))
    return edit if path else Changes()


def with_patched_files(
    results: Sequence[ToolResultMessage], step: Sequence[JsonObject]
) -> list[ToolResultMessage]:
    """Add changed files that no result mentions to the last result without files.

    That result usually belongs to a shell command.
    """
    named = {file.path for result in results for file in result.details.files}
    paths = [
        path for part in step if part.kind == "patch" for path in part.texts("files")
    ]
    unnamed = [path for path in dict.fromkeys(paths) if path and path not in named]
    files = tuple(FileTouch(path=path, action="modified") for path in unnamed)
    completed = [*results]
    for place, result in reversed([*enumerate(results)]):
        if not result.details.files:
            details = result.details.model_copy(update={"files": files})
            completed[place] = result.model_copy(update={"details": details})
            break
    return completed
