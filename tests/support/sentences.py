"""Finds the program's own sentences in a text, so that tests need not quote them."""

import re
from string import Formatter


def pattern(sentence: str, **values: object) -> str:
    """Return a regular expression for a sentence with placeholders.

    Args:
        values: values by the last part of a placeholder's name. Other placeholders match any text.
    """
    expression = ""
    for literal, name, _, _ in Formatter().parse(sentence):
        expression += re.escape(literal)
        if name is not None:
            value = values.get(name.rpartition(".")[2])
            expression += ".*" if value is None else re.escape(str(value))
    return expression


def says(text: object, sentence: str, **values: object) -> bool:
    """Return whether a text contains a sentence, with any values in its other placeholders."""
    return re.search(pattern(sentence, **values), str(text), re.DOTALL) is not None
