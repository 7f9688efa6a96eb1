"""The guided tour: a recorded session played through the real program, compactions and all."""

from .app import DemoApp

__all__ = ["DemoApp"]
