"""An extension of Griffe, which reads the code for the reference: constructors of modules, and links."""

import inspect
from typing import Any

import griffe
from public_names import reference_pages
from reference_files import docstring_text

from popsim.tasks import _fields as fields
from popsim.tasks._fields import DocumentedModule


class ConstructorsAndLinks(griffe.Extension):
    """Adds the constructors that Equinox and others make, and links the names in docstrings."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: Any) -> None:
        """Change what was read of popsim."""
        _say_arguments(loader.modules_collection)
        _link_docstrings(pkg)
        for name in (name for page in reference_pages() for name in page.names):
            if inspect.isclass(name.value):
                _add_constructor(name.value, loader.modules_collection)


def _say_arguments(modules: griffe.ModulesCollection) -> None:
    """Give classes of tasks the docstrings that they have at run time, with what their fields are for."""
    for kind in (name.value for page in reference_pages() for name in page.names):
        if inspect.isclass(kind) and issubclass(kind, DocumentedModule):
            read = modules[f"{kind.__module__}.{kind.__qualname__}"]
            read.docstring = griffe.Docstring(inspect.getdoc(kind) or "", parent=read)


def _link_docstrings(item: griffe.Object | griffe.Alias) -> None:
    if item.docstring is not None:
        item.docstring.value = docstring_text(item.docstring.value)
    for member in item.members.values():
        if not member.is_alias:
            _link_docstrings(member)


def _add_constructor(kind: type, modules: griffe.ModulesCollection) -> None:
    """Add the constructor that a class has at run time to one that is written without."""
    bases = [modules[f"{base.__module__}.{base.__qualname__}"] for base in kind.__mro__ if _of_popsim(base)]
    written = [base.members["__init__"] for base in bases if "__init__" in base.members]
    if inspect.isabstract(kind):
        return
    if written and written[0].is_function:
        _spell_out_options(*written[:2])
        return
    try:
        parameters = inspect.signature(kind).parameters.values()
    except ValueError:  # of an exception
        return
    first = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
    bases[0].set_member(
        "__init__",
        griffe.Function(
            "__init__",
            parent=bases[0],
            parameters=griffe.Parameters(first, *(_parameter(each, bases) for each in parameters)),
        ),
    )


def _spell_out_options(constructor: griffe.Function, inherited: griffe.Function | None = None) -> None:
    """Give a constructor the options that it hands to the inherited one, in place of `**options`."""
    parameters = list(constructor.parameters)
    if inherited is not None and str(parameters[-1].annotation).startswith("Unpack["):
        names = {parameter.name for parameter in parameters}
        by_name = [each for each in inherited.parameters if each.kind is griffe.ParameterKind.keyword_only]
        handed = [each for each in by_name if each.name not in names]
        constructor.parameters = griffe.Parameters(*parameters[:-2], *handed, parameters[-2])


def _of_popsim(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "popsim"


def _readable(annotation: Any) -> Any:
    """Return the annotation of a field; of a task, what may be given for it."""
    given = {"Drawn": "float | AbstractDistribution", "Scalar": "float | Array"}
    text = str(annotation)
    return given.get(text, text.replace("Number", "Array") if "[Number" in text else annotation)


def _parameter(parameter: inspect.Parameter, bases: list[griffe.Class]) -> griffe.Parameter:
    """Return a parameter with the annotation and the default of the field, as they are written."""
    members = (base.members.get(parameter.name) for base in bases)
    fields = (member for member in members if isinstance(member, griffe.Attribute) and member.annotation)
    field = next(fields, None)
    default = None
    if parameter.default is not inspect.Parameter.empty:
        default = "..." if field is None else _default(field, parameter.default)
    return griffe.Parameter(
        parameter.name,
        annotation=None if field is None else _readable(field.annotation),
        kind=griffe.ParameterKind[parameter.kind.name.lower()],
        default=default,
    )


def _default(field: griffe.Attribute, value: Any) -> griffe.Expr | str:
    """Return the default of a field; `...` if it is made for each object."""
    if field.value is None or value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if not isinstance(field.value, griffe.ExprCall):
        return field.value
    arguments = {
        each.name: each.value for each in field.value.arguments if isinstance(each, griffe.ExprKeyword)
    }
    called = str(field.value.function).rpartition(".")[2]
    if called == "field":
        return arguments.get("default", "...")
    if inspect.isfunction(specifier := getattr(fields, called, None)):
        return _given(arguments.get("default", "..."), is_drawn=specifier in DRAWN)
    return field.value


DRAWN = (fields.drawn, fields.coherence, fields.epoch)


def _given(default: griffe.Expr | str, *, is_drawn: bool) -> griffe.Expr | str:
    """Return what one would give for the default of a field of a task; `...` for one that has a name."""
    if isinstance(default, griffe.ExprName):
        return "..."
    if isinstance(default, griffe.ExprLambda):
        return default.body
    if is_drawn and isinstance(default, griffe.ExprTuple):
        return f"Uniform{default}"
    if is_drawn and isinstance(default, griffe.ExprList):
        return f"Choice({default})"
    return default
