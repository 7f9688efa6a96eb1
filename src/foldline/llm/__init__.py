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
from .embedder import Embedder, EmbedderWhile, NoEmbedder, Vector

__all__ = [
    "LLM",
    "Answer",
    "Chunk",
    "ContextOverflow",
    "Embedder",
    "EmbedderWhile",
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
