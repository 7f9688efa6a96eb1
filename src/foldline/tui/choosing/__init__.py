"""Choosing one of many by typing: the picker, and the palette that is made of it."""
