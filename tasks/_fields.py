"""Fields of tasks, each with its default, what it is for, and what its numbers must be."""

import contextlib
import dataclasses
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, dataclass_transform, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float

from popsim._shared import checks
from popsim._shared.argument_shapes import check_field, check_kind
from popsim._shared.member_values import check_module_of_members
from popsim._shared.plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, Uniform, as_distribution
from popsim.per_member import PerMember, has_per_member

Check = Callable[[str, Any], None]
Converter = Callable[[Any], Any]

if TYPE_CHECKING:  # what may be given for a field, and what is read from it

    class Number:
        def __set__(self, module: Any, value: ArrayLike | Sequence[Any] | PerMember) -> None: ...
        def __get__(self, module: Any, kind: Any = None) -> Array: ...

    class Drawn:
        def __set__(self, module: Any, value: AbstractDistribution | ArrayLike | Sequence[Any]) -> None: ...
        def __get__(self, module: Any, kind: Any = None) -> AbstractDistribution: ...

    Scalar = Number
else:
    Number, Drawn, Scalar = Array, AbstractDistribution, Float[Array, ""]

MISSING: Any = dataclasses.MISSING
POSITIVE, NON_NEGATIVE, FRACTION = checks.check_positive, checks.check_non_negative, checks.check_fraction
FINITE, POSITIVE_INT = checks.check_finite, checks.check_positive_int

EVEN_DIRECTIONS = "the number of evenly spaced directions, an even number"
FROM_CENTRE = "; reaches start at its centre"
RESPONSE = "the weights before and after the go cue, and the fraction of catch trials"


def number(help: str, *, default: Any = MISSING, check: Check = FINITE, kw_only: bool = True) -> Any:
    """Return a field of a `Scalar` or of `Float[Number, ...]`, whose numbers may differ between members."""
    return _field(help, default, check, kw_only=kw_only, converter=checks.as_float_array)


def drawn(help: str, *, default: Any = MISSING, check: Check | None = None, kw_only: bool = True) -> Any:
    """Return a field that is `Drawn` in each trial.

    The default may be a tuple, the bounds of a `Uniform`, or a list, the values of a `Choice`.
    """
    if isinstance(default, tuple):
        default = functools.partial(Uniform, *default)
    if isinstance(default, list):
        default = functools.partial(Choice, default)
    help = help if "distribution" in help else f"{help}; a number or a distribution"
    return _field(help, default, check, kw_only=kw_only, converter=as_distribution)


def setting(help: str, *, default: Any, check: Check | None = None, kw_only: bool = True) -> Any:
    """Return a field of a number or a word, for which programs are compiled."""
    converter: dict[str, Any] = {} if isinstance(default, str) else {"converter": plain_number}
    return _field(help, default, check, kw_only=kw_only, static=True, **converter)


def part(help: str, *, default_factory: Callable[[], Any], kw_only: bool = True) -> Any:
    """Return a field of a module."""
    return _field(help, default_factory, None, kw_only=kw_only)


def default_loss(*, default_factory: Callable[[], Any]) -> Any:
    """Return the field `loss`."""
    return part("the loss to train with", default_factory=default_factory)


def region(more: str = "", *, kw_only: bool) -> Any:
    """Return the field `workspace`."""
    help = f"the region of the task, such as `plant.workspace`{more}"
    return _field(help, MISSING, None, kw_only=kw_only)


def positive(help: str, *, default: Any = MISSING, kw_only: bool = True) -> Any:
    """Return a field of numbers above zero."""
    return number(help, default=default, check=POSITIVE, kw_only=kw_only)


def non_negative(help: str, *, default: Any = MISSING, kw_only: bool = True) -> Any:
    """Return a field of numbers from zero on."""
    return number(help, default=default, check=NON_NEGATIVE, kw_only=kw_only)


def fixed(help: str, *, default: float) -> Any:
    """Return a field of a number above zero, for which programs are compiled."""
    return setting(help, default=default, check=POSITIVE)


def fraction(help: str, *, default: Any = MISSING) -> Any:
    """Return a field of numbers from zero to one."""
    return number(help, default=default, check=FRACTION)


def white_noise(of: str, *, default: Any) -> Any:
    """Return a field of the standard deviation of white noise in a second."""
    help = f"sigma of {of}, in s^0.5; the standard deviation in a time step is sigma / dt^0.5"
    return non_negative(help, default=default)


def coherence(more: str = "; at zero the correct choice is random", *, default: Any) -> Any:
    """Return a field of the coherence of evidence."""
    help = f"the distribution of the coherence, from -1 to 1{more}"
    return drawn(help, default=default, check=check_coherence)


def epoch(*, default: Any, check: Check | None = None) -> Any:
    """Return a field of the duration of the epoch of its name."""
    return drawn('the duration of the epoch "{name}", in seconds', default=default, check=check)


def count(of: str, *, default: Any, least: int = 1) -> Any:
    """Return a field of the number of some things."""
    return setting(f"the number of {of}", default=default, check=at_least(least))


def directions(of: str = "directions", *, default: int | None) -> Any:
    """Return a field of a number of directions, which may be None."""
    help = f"the number of {of}; None for the whole circle"
    return setting(help, default=default, check=POSITIVE_INT)


def trial_duration(
    help: str = "the duration of a trial, in seconds; its last epoch takes what the others leave",
    *,
    default: float,
) -> Any:
    """Return the field `duration`."""
    return fixed(help, default=default)


def time_step(help: str = "the time step of the model, in seconds", *, default: float) -> Any:
    """Return the field `dt`."""
    return setting(help, default=default, check=lambda _, dt: checks.check_time_step(dt))


def _as_given(value: Any) -> Any:
    return value


def _field(
    help: str, default: Any, check: Check | None, *, converter: Converter = _as_given, **options: Any
) -> Any:
    """Return a field that is checked when it is set, before what the class does with it in its checks."""

    def converted(value: Any) -> Any:
        if converter is as_distribution and (value is None or isinstance(value, str)):
            raise ValueError(f"`{field.name}` must be a number or a distribution, got {value!r}.")
        return _checked(field, None if value is None else converter(value))

    kind = "default_factory" if callable(default) else "default"
    metadata = {"help": help, "check": check, "is_drawn": converter is as_distribution}
    field: Any = eqx.field(metadata=metadata, converter=converted, **{kind: default}, **options)
    return field


def _checked(field: Any, value: Any) -> Any:
    """Return the value of a field; raise `ValueError` by its name unless it is what it must be."""
    check = field.metadata["check"]
    if value is None and types.NoneType in get_args(field.type):
        return value
    check_kind(field, value)
    check_field(field, value)
    if check is not None and field.metadata["is_drawn"] and isinstance(value, AbstractDistribution):
        check_drawn(field.name, value, check)
    elif check is not None:
        check(field.name, value)
    return value


@dataclass_transform(
    kw_only_default=True,
    field_specifiers=(
        *(eqx.field, number, drawn, setting, part, default_loss, fraction, white_noise, coherence, epoch),
        *(region, positive, non_negative, fixed, count, directions, trial_duration, time_step),
    ),
)
class _WithSpecifiers(type(eqx.Module)):
    """Tells type checkers, and with them editors, of the functions above."""


class DocumentedModule(eqx.Module, metaclass=_WithSpecifiers):
    """A module whose fields check themselves, and whose docstring gets what they are for.

    `__check_init__` of a subclass sees the values of one member at a time, and never a `PerMember`. Under
    JAX's tracing, where numbers have no value, it ends at the first comparison of one.
    """

    def __init_subclass__(cls, **options: Any):
        super().__init_subclass__(**options)
        if "__check_init__" in vars(cls):
            type.__setattr__(cls, "__check_init__", _check_members(vars(cls)["__check_init__"]))
        inherited: dict[str, Any] = {}
        for base in cls.__mro__[1:]:
            inherited |= {**getattr(base, "__dataclass_fields__", {}), **inherited}
        for name in inspect.get_annotations(cls).keys() & inherited.keys():
            _inherit(cls, name, inherited[name])
        own = {name: field for name, field in vars(cls).items() if isinstance(field, dataclasses.Field)}
        if cls.__doc__ and "**Arguments:**" not in cls.__doc__ and (listed := _listed(own | inherited | own)):
            cls.__doc__ = "\n\n".join([inspect.cleandoc(cls.__doc__), "**Arguments:**", listed])


def _check_members(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return a check of a module that sees the values of one member at a time."""

    @functools.wraps(check)
    def check_members(module: Any) -> None:
        if has_per_member(module):
            check_module_of_members(f"`{type(module).__name__}`", module, check)
            return
        with contextlib.suppress(jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            check(module)

    return check_members


def _inherit(cls: type, name: str, inherited: Any) -> None:
    """Give a field that a class of a user declares anew the help and the check of that of its base.

    One that is declared without `eqx.field`, as in `noise: float = 0.2`, is as in the base but its default.
    """
    if "check" not in inherited.metadata:
        return
    own = vars(cls).get(name, MISSING)
    if not isinstance(own, dataclasses.Field):
        options = {"metadata": inherited.metadata, "kw_only": inherited.kw_only}
        setattr(cls, name, dataclasses.field(default=own, **options))
    elif "check" not in own.metadata:
        _check_as(own, inherited)


def _check_as(field: Any, inherited: Any) -> None:
    """Give a field the help and the check of another one, after its own converter."""
    own = field.metadata.get("converter", _as_given)
    checked = {"converter": lambda value: _checked(field, own(value))}
    field.metadata = {**inherited.metadata, **field.metadata, **checked}


LAST = ("response", "n_validation", "n_validation_trials", "duration", "dt", "loss")


def _listed(fields: dict[str, Any]) -> str:
    """Return a list of fields with what they are for."""
    helps = {name: field.metadata["help"] for name, field in fields.items() if "help" in field.metadata}
    names = sorted(helps, key=lambda name: (name != "workspace", name in LAST and 1 + LAST.index(name)))
    texts = (f"- `{name}`: {helps[name].replace('{name}', name.replace('_', ' '))}." for name in names)
    wrap = functools.partial(textwrap.fill, width=106, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(map(wrap, texts))


def check_drawn(name: str, values: AbstractDistribution, check: Check, shape: tuple[int, ...] = ()) -> None:
    """Run `check`, such as `check_positive`, on the bounds of a distribution of values of this shape."""
    if has_per_member(values):
        return
    for bound in values.bounds():
        if np.shape(bound) != shape:
            expected = f"an array of shape {shape}" if shape else "one number"
            raise ValueError(f"`{name}` must be {expected} in each trial, got shape {np.shape(bound)}.")
        check(name, bound)


def check_coherence(name: str, value: Any) -> None:
    """Raise `ValueError` for finite bounds outside [-1, 1], such as percentages."""
    FRACTION(name, jnp.where(jnp.isfinite(value), abs(value), 0.0))


def check_angle(name: str, value: Any) -> None:
    """Raise `ValueError` unless an angle is positive; warn of one in degrees."""
    POSITIVE(name, value)
    checks.warn_of_unit(name, value, "angle")


def check_index(name: str, value: Any, n_directions: int) -> None:
    """Raise `ValueError` unless a value is a number of directions, or the index of one of them."""
    if value not in range(n_directions):
        raise ValueError(f"`{name}` must be from 0 to {n_directions - 1} directions, got {value!r}.")


def check_even(name: str, value: Any) -> None:
    """Raise `ValueError` unless a number of things is even."""
    POSITIVE_INT(name, value)
    if value % 2:
        raise ValueError(f"`{name}` must be even, got {value}.")


def at_least(least: int) -> Check:
    """Return the check of a number of things, of which there must be some."""

    def check(name: str, value: Any) -> None:
        POSITIVE_INT(name, value)
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}, got {value}.")

    return check


def one_of(*values: int) -> Check:
    """Return the check of a number of things that must be one of these."""

    def check(name: str, value: Any) -> None:
        POSITIVE_INT(name, value)
        if value not in values:
            raise ValueError(f"`{name}` must be {' or '.join(map(str, values))}, got {value}.")

    return check
