"""The user interface, which is the only package that imports Textual."""
