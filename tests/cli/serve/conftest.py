from support.front_door import door

__all__ = ["door"]
