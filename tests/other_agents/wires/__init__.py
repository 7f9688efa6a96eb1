"""The four APIs of the scripted model: read a request into items, write a reply, whole or as a stream."""

from . import anthropic_messages, gemini, openai_chat, openai_responses
from .shapes import Call, Item, Json, Reply, Tool, Wire

WIRES: dict[str, Wire] = {
    "chat": openai_chat,
    "responses": openai_responses,
    "messages": anthropic_messages,
    "gemini": gemini,
}

__all__ = ["WIRES", "Call", "Item", "Json", "Reply", "Tool", "Wire", "wire_of"]


def wire_of(path: str) -> str:
    """The name of the API that has this path; empty if none has."""
    path = path.partition("?")[0]
    if path.endswith("/chat/completions"):
        return "chat"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/messages"):
        return "messages"
    if path.endswith(("generateContent", "streamGenerateContent")):
        return "gemini"
    return ""
