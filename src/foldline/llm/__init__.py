"""Model clients: one protocol, an OpenAI-compatible client, and the embedded offline model."""

from .base import (
    LLM,
    Answer,
    Chunk,
    ContextOverflow,
    LLMError,
    ModelInfo,
    Request,
    RetryChunk,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolSpec,
    spec_tokens,
)

__all__ = [
    "LLM",
    "Answer",
    "Chunk",
    "ContextOverflow",
    "LLMError",
    "ModelInfo",
    "Request",
    "RetryChunk",
    "TextChunk",
    "ThinkingChunk",
    "ToolCallChunk",
    "ToolSpec",
    "spec_tokens",
]
