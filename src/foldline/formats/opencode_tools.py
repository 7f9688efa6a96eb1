"""The tool calls of opencode: each is one part of a message, with its arguments, result and effect."""

from foldline.protocol import FileTouch, Part, ToolCallPart, ToolDetails, ToolResultMessage, text_parts

from .base import JsonObject, as_count, as_list, as_object, as_text, parse_object
from .changes import Changes, edit_of, patched, together, whole_file
from .chat_parts import arguments_text, image_at, line_count

_PATCHING = ("patch", "apply_patch")
_IMAGE = "image/"


def tool_call(part: JsonObject) -> ToolCallPart:
    state = as_object(part.get("state"))
    arguments = state.get("input") or as_text(state.get("raw")) or {}
    return ToolCallPart(
        call_id=as_text(part.get("callID")) or as_text(part.get("id")) or "call",
        name=as_text(part.get("tool")),
        arguments=arguments_text(arguments),
    )


def tool_result(part: JsonObject, call: ToolCallPart) -> ToolResultMessage | None:
    """What the call gave; None where it never ended."""
    state = as_object(part.get("state"))
    about = as_object(state.get("metadata"))
    match state.get("status"):
        case "completed":
            text, failed = as_text(state.get("output")), bool(_exit_code(about))
        case "error" if about.get("interrupted") is True and as_text(about.get("output")):
            text, failed = as_text(about.get("output")), True
        case "error":
            text, failed = as_text(state.get("error")), True
        case _:
            return None
    done = Changes() if failed else _changes(call, about, text)
    time = as_object(state.get("time"))
    milliseconds = as_count(time.get("end")) - as_count(time.get("start"))
    return ToolResultMessage(
        call_id=call.call_id,
        name=call.name,
        is_error=failed,
        parts=(*text_parts(text), *_images(state)),
        details=ToolDetails(
            brief=_brief(about, failed, done, text),
            seconds=milliseconds / 1000 if milliseconds > 0 else None,
            files=done.files,
            diff=done.diff,
            full_output=as_text(about.get("outputPath")) or None,
        ),
    )


def hidden_at(part: JsonObject) -> int:
    """When opencode took the output out of the model's sight, in milliseconds since 1970; 0 for never."""
    return as_count(as_object(as_object(part.get("state")).get("time")).get("compacted"))


def _exit_code(about: JsonObject) -> int:
    code = about.get("exit")
    return code if type(code) is int else 0


def _brief(about: JsonObject, failed: bool, done: Changes, text: str) -> str:
    if code := _exit_code(about):
        return f"exit {code}"
    return "failed" if failed else done.brief or line_count(text)


def _images(state: JsonObject) -> list[Part]:
    attached = [as_object(file) for file in as_list(state.get("attachments"))]
    images = [
        image_at(as_text(file.get("url")))
        for file in attached
        if as_text(file.get("mime")).startswith(_IMAGE)
    ]
    return [image for image in images if image is not None]


def _changes(call: ToolCallPart, about: JsonObject, text: str) -> Changes:
    """What a call that went well did to files."""
    arguments = parse_object(call.arguments.encode()) or {}
    path = as_text(arguments.get("filePath")) or as_text(about.get("filepath"))
    reports = [as_object(file) for file in (*as_list(about.get("files")), about.get("filediff"))]
    if call.name in _PATCHING:
        changes = together(map(_reported, filter(None, reports)))
        return changes if changes.files else patched(as_text(arguments.get("patchText")))
    if not path:
        return Changes()
    match call.name:
        case "read":
            shown = as_object(about.get("display")).get("type")
            is_folder = shown == "directory" or "<type>directory</type>" in text[:1000]
            return Changes() if is_folder else Changes((FileTouch(path=path, action="read"),))
        case "write":
            written = whole_file(path, as_text(arguments.get("content")))
            return written if about.get("exists") is False else Changes(written.files)
        case "edit" | "multiedit":
            report = as_object(about.get("filediff"))
            return edit_of(path, as_text(about.get("diff")) or as_text(report.get("patch")))
        case _:
            return Changes()


def _reported(file: JsonObject) -> Changes:
    path = as_text(file.get("filePath")) or as_text(file.get("file"))
    edit = edit_of(path, as_text(file.get("diff")) or as_text(file.get("patch")))
    target = as_text(file.get("movePath"))
    moved = (FileTouch(path=target, action="modified"),) if target else ()
    return Changes((*edit.files, *moved), edit.diff) if path else Changes()
