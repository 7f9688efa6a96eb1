"""The screens: the chat, and all that opens over it or beside it. The only package that imports Textual."""
