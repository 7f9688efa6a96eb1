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
from .embedder import Embedder, NoEmbedder, Vector

__all__ = [
    "LLM",
    "Answer",
    "Chunk",
    "ContextOverflow",
    "Embedder",
    "LLMError",
    "ModelInfo",
    "NoEmbedder",
    "Request",
    "RetryChunk",
    "TextChunk",
    "ThinkingChunk",
    "ToolCallChunk",
    "ToolSpec",
    "Vector",
    "spec_tokens",
]
