"""What the settings of an experiment are for, as the class says it below each of them."""

import ast
import dataclasses
import functools
import inspect
import textwrap

from popsim._text_checks import one_line
from popsim.experiments.experiment import AbstractExperiment

__all__ = ["setting_texts"]


@functools.cache
def setting_texts(kind: type[AbstractExperiment]) -> dict[str, str]:
    """Return what each setting is for: the string below its field, or the `help` in the field's metadata.

    Settings without one are left out, as are those of a class whose source cannot be read.
    """
    texts: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        texts |= _below_fields(each) if each is not object else {}
    texts |= {
        field.name: field.metadata["help"] for field in dataclasses.fields(kind) if "help" in field.metadata
    }
    names = [field.name for field in dataclasses.fields(kind)]
    return {name: one_line(texts[name]) for name in names if texts.get(name)}


def _below_fields(kind: type) -> dict[str, str]:
    """Return the strings that stand below the annotated names in the body of a class."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    except (OSError, TypeError, SyntaxError, ValueError):  # of a class that was made, or typed at a prompt
        return {}
    if not isinstance(definition, ast.ClassDef) or definition.name != kind.__name__:
        return {}
    texts = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                texts[name] = words
    return texts
