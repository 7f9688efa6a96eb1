"""Creates content blocks and session updates of the protocol."""

from collections.abc import Iterable, Sequence
from typing import Any

from . import schema


def text_block(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(text=text)


def image_block(data: str, mime_type: str) -> schema.ImageContentBlock:
    return schema.ImageContentBlock(data=data, mime_type=mime_type)


def tool_content(block: schema.ContentBlock) -> schema.ContentToolCallContent:
    return schema.ContentToolCallContent(content=block)


def tool_diff_content(
    path: str, new_text: str, old_text: str
) -> schema.FileEditToolCallContent:
    return schema.FileEditToolCallContent(
        path=path, new_text=new_text, old_text=old_text
    )


def update_user_message(content: schema.ContentBlock) -> schema.MessageChunk:
    return schema.MessageChunk(session_update="user_message_chunk", content=content)


def update_user_message_text(text: str) -> schema.MessageChunk:
    return update_user_message(text_block(text))


def update_agent_message_text(text: str) -> schema.MessageChunk:
    return schema.MessageChunk(
        session_update="agent_message_chunk", content=text_block(text)
    )


def update_agent_thought_text(text: str) -> schema.MessageChunk:
    return schema.MessageChunk(
        session_update="agent_thought_chunk", content=text_block(text)
    )


def update_available_commands(
    commands: Sequence[schema.AvailableCommand],
) -> schema.AvailableCommandsUpdate:
    return schema.AvailableCommandsUpdate(available_commands=list(commands))


def update_plan(entries: Iterable[schema.PlanEntry]) -> schema.AgentPlanUpdate:
    return schema.AgentPlanUpdate(entries=list(entries))


def start_tool_call(id: str, title: str, **fields: Any) -> schema.ToolCallStart:
    return schema.ToolCallStart(tool_call_id=id, title=title, **fields)


def update_tool_call(id: str, **fields: Any) -> schema.ToolCallProgress:
    return schema.ToolCallProgress(tool_call_id=id, **fields)
