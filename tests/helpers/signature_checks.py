"""Check calls of popsim against their signatures: by beartype, in a context of jaxtyping for shapes.

jaxtyping's own decorator took a third of the time of the tests in memory: it compiles checks of functions
that are never called, binds all arguments at each call, and checks them once more with what is returned.
"""

import dataclasses
import functools
import inspect
import types
import typing

import beartype
import jaxtyping

_check = beartype.beartype(  # an int is a float
    conf=beartype.BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError)
)
_sizes_of_call = jaxtyping.jaxtyped("context")  # within it, equal names of axes are equal sizes
_check_generator = functools.partial(jaxtyping.jaxtyped, typechecker=_check)
# The globals of what is put around a function: popsim's warnings name the first frame that is not popsim's.
_AS_POPSIM = {"jaxtyping": jaxtyping, "_sizes_of_call": _sizes_of_call, "__name__": "popsim"}


def check_signatures(package: str) -> None:
    """Check the calls of functions and dataclasses of modules that are imported from now on."""
    jaxtyping.jaxtyped = _decorator  # by which the hook decorates
    jaxtyping.install_import_hook(package, "beartype.beartype")


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
                target.__init__ = _checked(constructor)
            return target
        return target if "<locals>" in target.__qualname__ else _checked(target)

    return decorate


def _checked(function):
    """Return a function that makes its check when it is first called."""
    annotations = dict(function.__annotations__)  # which Equinox changes to those of converters
    with_shapes = any(map(_names_shapes, annotations.values()))
    # Beartype checks one when its first value is taken, which may be in the context of another call.
    is_generator = with_shapes and inspect.isgeneratorfunction(function)

    @functools.cache
    def with_check():
        function.__annotations__ = annotations
        return (_check_generator if is_generator else _check)(function)

    def call(*arguments, **options):
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **options)
        return with_check()(*arguments, **options)

    def call_with_shapes(*arguments, **options):
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*arguments, **options)
        with _sizes_of_call:
            return with_check()(*arguments, **options)

    call = call_with_shapes if with_shapes and not is_generator else call
    return functools.wraps(function)(types.FunctionType(call.__code__, _AS_POPSIM, closure=call.__closure__))


def _names_shapes(annotation) -> bool:
    """Whether an annotation is one of jaxtyping, or holds one."""
    if isinstance(annotation, list):  # the arguments of a callable
        return any(map(_names_shapes, annotation))
    of_jaxtyping = str(getattr(annotation, "__module__", None)).startswith("jaxtyping")
    return of_jaxtyping or any(map(_names_shapes, typing.get_args(annotation)))
