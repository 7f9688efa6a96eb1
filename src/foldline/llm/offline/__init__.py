"""The embedded offline model: no language model, but a small program that follows simple requests."""

from .model import MAX_OUTPUT, WINDOW, OfflineLLM

__all__ = ["MAX_OUTPUT", "WINDOW", "OfflineLLM"]
