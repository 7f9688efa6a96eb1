"""Describes the settings for users, with the docstrings of their fields.

This is not done when the settings are declared, because parsing the source would delay every start.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache

from . import schema


@cache
def add_descriptions() -> None:
    """Set the description of each setting, also in the JSON schema."""
    for declaration in ast.parse(inspect.getsource(schema)).body:
        if not isinstance(declaration, ast.ClassDef):
            continue
        section: object = getattr(schema, declaration.name)
        if isinstance(section, type) and issubclass(section, schema.SettingsSection):
            for name, docstring in _docstrings(declaration):
                section.model_fields[name].description = docstring
            # Sections are declared before the sections that contain them.
            section.model_rebuild(force=True)


def _docstrings(declaration: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the fields that have a docstring, each with its docstring."""
    for field, following in zip(declaration.body, declaration.body[1:], strict=False):
        match field, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, inspect.cleandoc(text)
