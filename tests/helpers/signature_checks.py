"""Check calls of popsim against their signatures: by jaxtyping where these name shapes, else by beartype.

jaxtyping's own decorator took a third of the time of the tests in memory, most of it to compile checks of
functions that are never called, or anew at each call of the function that they stand in.
"""

import dataclasses
import functools
import inspect
import types
import typing

import beartype
import jaxtyping

_CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"  # an int is a float
_check_types = beartype.beartype(
    conf=beartype.BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError)
)
_check_shapes = jaxtyping.jaxtyped
# The globals of what is put around a function: popsim's warnings name the first frame that is not popsim's.
_AS_POPSIM = {"jaxtyping": jaxtyping, "__name__": "popsim"}


def check_signatures(package: str) -> None:
    """Check the calls of functions and dataclasses of modules that are imported from now on."""
    jaxtyping.jaxtyped = _decorator  # by which the hook decorates
    jaxtyping.install_import_hook(package, _CHECKER)


def _decorator(*, typechecker):
    """Return the decorator of the functions and classes of a module.

    A function within a function has no public signature, and remains as it is.
    """

    def decorate(target):
        if inspect.isclass(target):
            constructor = vars(target).get("__init__")
            # Only what `dataclass` has made: one that is written out in the class is checked already.
            made_here = inspect.isfunction(constructor) and constructor.__code__.co_filename == "<string>"
            if dataclasses.is_dataclass(target) and made_here:
                target.__init__ = _checked(constructor, typechecker)
            return target
        return target if "<locals>" in target.__qualname__ else _checked(target, typechecker)

    return decorate


def _checked(function, typechecker):
    """Return a function that makes its check when it is first called."""
    annotations = dict(function.__annotations__)  # which Equinox changes to those of converters

    @functools.cache
    def with_check():
        function.__annotations__ = annotations
        if any(map(_names_shapes, function.__annotations__.values())):
            return _check_shapes(function, typechecker=typechecker)
        return _check_types(function)

    def call(*arguments, **options):
        __tracebackhide__ = True
        run = function if jaxtyping.config.jaxtyping_disable else with_check()
        return run(*arguments, **options)

    return functools.wraps(function)(types.FunctionType(call.__code__, _AS_POPSIM, closure=call.__closure__))


def _names_shapes(annotation) -> bool:
    """Whether an annotation is one of jaxtyping, or holds one."""
    if isinstance(annotation, list):  # the arguments of a callable
        return any(map(_names_shapes, annotation))
    of_jaxtyping = str(getattr(annotation, "__module__", None)).startswith("jaxtyping")
    return of_jaxtyping or any(map(_names_shapes, typing.get_args(annotation)))
