"""The embedded offline model, a small program that follows simple requests.

It is not a language model.
"""

from .model import MAX_OUTPUT, WINDOW, OfflineLLM

__all__ = ["MAX_OUTPUT", "WINDOW", "OfflineLLM"]
