"""Rules of tasks on directions, as rows of numbers, and codes of directions by several units."""

import abc
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._compiled import is_traced
from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform, as_distribution
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks._fields import Scalar
from popsim.tasks.trial_parts import even_directions, ring_tuning, wrap_angle

__all__ = ["AbstractDirectionCode", "RingCode", "SineCode", "RingRule"]


SILENCE = "the target of each unit where there is no direction, to which a direction adds"


class AbstractDirectionCode(eqx.Module):
    """Base class of codes by which the activity of units represents a direction.

    A subclass has `n_units`, and `silence`, the target of each unit where there is no direction.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp
        >>> from popsim.tasks import AbstractDirectionCode
        >>> class Cosines(AbstractDirectionCode):
        ...     n_units: int = 4
        ...     silence: jax.Array = eqx.field(default_factory=lambda: jnp.zeros(()))
        ...     def encode(self, direction):
        ...         return jnp.cos(direction[..., None] - jnp.arange(4) * jnp.pi / 2)
        ...     def decode(self, activity):
        ...         right, up, left, down = jnp.moveaxis(activity, -1, 0)
        ...         return jnp.arctan2(up - down, right - left)
        >>> code = Cosines()
        >>> round(float(code.decode(code.encode(jnp.array(2.0)))), 4)
        2.0

        ```
    """

    n_units: eqx.AbstractVar[int]
    silence: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        """Return the activity for a direction in rad, without `silence`."""

    @abc.abstractmethod
    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        """Return the direction that an activity represents, in rad in (-pi, pi]."""


class RingCode(fields.DocumentedModule, AbstractDirectionCode):
    """Units on a ring, with Gaussian tuning, that are read out by their population vector.

    The tuning is `peak` exp(-(8 d / pi)² / 2) at distance d from the preferred direction; the population
    vector is the direction of sum_i r_i (cos, sin) of the preferred directions. Both are those of Yang et al.
    2019, Nat Neurosci 22:297 (checked in gyyang/multitask, `task.py` and `popvec` in `network.py`).
    """

    n_units: int = fields.setting(
        "the number of units, at least 3", default=32, check=fields.at_least(3), kw_only=False
    )
    peak: Scalar = fields.positive("the activity of a unit for its preferred direction", default=0.8)
    silence: Scalar = fields.number(SILENCE, default=0.05)  # pyright: ignore[reportIncompatibleVariableOverride]

    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        return self.peak * ring_tuning(direction, self.n_units)

    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        preferred = even_directions(self.n_units)
        return wrap_angle(jnp.arctan2(activity @ jnp.sin(preferred), activity @ jnp.cos(preferred)))


class SineCode(fields.DocumentedModule, AbstractDirectionCode):
    """The sine and the cosine of a direction, in this order.

    The code of Driscoll, Shenoy & Sussillo 2024, Nat Neurosci 27:1349 (checked in
    lauradriscoll/flexible_multitask, `stepnet/task.py` and `popvec` in `stepnet/network.py`).
    """

    n_units: int = fields.setting("2", default=2, check=fields.one_of(2), kw_only=False)
    silence: Scalar = fields.number(SILENCE, default=0.0)  # pyright: ignore[reportIncompatibleVariableOverride]

    def encode(self, direction: Float[Array, "*axes"]) -> Float[Array, "*axes unit"]:
        return jnp.stack([jnp.sin(direction), jnp.cos(direction)], axis=-1)

    def decode(self, activity: Float[Array, "*axes unit"]) -> Float[Array, "*axes"]:
        return wrap_angle(jnp.arctan2(activity[..., 0], activity[..., 1]))


EPOCHS = ("fixation", "stimulus 1", "delay 1", "stimulus 2", "delay 2", "response")
Response = Literal["pro", "anti", "stronger", "match", "non-match", "same category", "other category"]
RESPONSES = get_args(Response)
Rings = Literal["1", "2", "both", "either"]
RINGS = get_args(Rings)
RELEVANT = {"1": (1.0, 0.0), "2": (0.0, 1.0), "both": (1.0, 1.0)}


def _as_epochs(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _as_durations(durations: Mapping[str, Any]) -> dict[str, AbstractDistribution]:
    if unknown := [name for name in durations if name not in EPOCHS]:
        raise ValueError(f"`durations` must be of the epochs {list(EPOCHS)}, got {unknown[0]!r}.")
    return {name: as_distribution(value) for name, value in durations.items()}


class RingRule(eqx.Module):
    """A rule of a `RingTask`: one or two stimuli in one or two rings, and the direction of the response.

    Each stimulus s has a direction, and a strength k in each ring r. In each ring, a mean m and a coherence c
    are drawn; the first stimulus then has strength m + c and the second m - c, or the reverse with equal
    probability. Distributions are a `Constant`, a `Uniform` or a `Choice`.

    **Arguments:**

    - `response`: the direction of the response: that of the first stimulus ("pro"), the opposite ("anti"),
        that of the stimulus with the larger sum of strengths in the `relevant` rings ("stronger"; of equal
        ones, the second), or that of the second stimulus where both directions are equal ("match"), differ
        ("non-match"), are in one half of the circle ("same category") or in two ("other category"), with no
        response elsewhere.
    - `durations`: durations by epoch, in seconds. The epochs are "fixation", "stimulus 1", "delay 1",
        "stimulus 2", "delay 2" and "response", which begins with the go cue; those without are left out.
    - `first_shown`, `second_shown`: the epochs in which the first and the second stimulus are shown.
    - `fixation_ends`: whether the fixation input goes off at the go cue. If not, the stimulus is the cue.
    - `rings`: the rings in which both stimuli are shown: "1", "2", "both", or "either": one of them, drawn
        for each stimulus.
    - `relevant`: the rings that count: "1", "2" or "both". With "both", the mean and the coherence are the
        same in both.
    - `direction`: of the first stimulus, in rad.
    - `distance`: from the first stimulus to the second to either side, in rad; None if the direction of the
        second is drawn as that of the first.
    - `match_probability`: the probability that the second stimulus has the direction of the first.
    - `mean`, `coherence`: see above.
    - `difference`: the difference between the two rings in the strength of a stimulus, as a fraction of its
        strength; either ring may be the stronger.
    """

    response: Response = eqx.field(static=True)
    durations: dict[str, AbstractDistribution] = eqx.field(converter=_as_durations)
    first_shown: tuple[str, ...] = eqx.field(static=True, kw_only=True, converter=_as_epochs)
    second_shown: tuple[str, ...] = eqx.field(static=True, kw_only=True, converter=_as_epochs, default=())
    fixation_ends: bool = eqx.field(static=True, kw_only=True, default=True)
    rings: Rings = eqx.field(static=True, kw_only=True, default="either")
    relevant: Literal["1", "2", "both"] = eqx.field(static=True, kw_only=True, default="both")
    direction: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.0, 2 * math.pi)
    )
    distance: AbstractDistribution | None = eqx.field(
        kw_only=True, converter=lambda value: None if value is None else as_distribution(value), default=None
    )
    match_probability: Float[Array, ""] = eqx.field(
        kw_only=True, converter=checks.as_float_array, default=0.0
    )
    mean: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=1.0)
    coherence: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)
    difference: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.0)

    def __check_init__(self):
        check_fields(self)
        checks.check_fraction("match_probability", self.match_probability)
        for epoch, duration in self.durations.items():
            fields.check_drawn(f"durations[{epoch!r}]", duration, checks.check_non_negative)
        for name, angles in (("direction", self.direction), ("distance", self.distance)):
            if angles is not None:
                fields.check_drawn(name, angles, functools.partial(checks.warn_of_unit, kind="angle"))
        compares, is_alone = self.response == "stronger", self.distance is None
        used = {*self.first_shown, *self.second_shown, "response"}
        bounds = [bound for bound in self.coherence.bounds() if not is_traced(bound)]
        is_drawn = not is_traced(self.match_probability) and self.match_probability > 0
        for is_bad, name, expected in (
            (not self.first_shown, "first_shown", "one epoch or more"),
            (self.response not in ("pro", "anti") and not self.second_shown, "second_shown", "an epoch"),
            (not used <= self.durations.keys(), "durations", f"of all of {sorted(used)}"),
            (is_alone and self.response in ("match", "non-match"), "distance", "given"),
            (is_alone and is_drawn, "match_probability", "given with `distance`"),
            (compares and len(bounds) == 2 and not np.any(np.asarray(bounds)), "coherence", "given, above 0"),
            (
                compares and self.rings in ("1", "2") and self.relevant not in (self.rings, "both"),
                "relevant",
                "the ring in which stimuli are shown",
            ),
        ):
            if is_bad:
                got = checks.short_repr(getattr(self, name))
                raise ValueError(f"`{name}` must be {expected}, for {self.response!r}, got {got}.")

    def quantities(self) -> list[AbstractDistribution]:
        """Return the distributions that a trial draws from: the durations of `EPOCHS` and `OTHERS`."""
        durations = [self.durations.get(name, Constant(0.0)) for name in EPOCHS]
        distance = Constant(0.0) if self.distance is None else self.distance
        return [*durations, self.direction, distance, self.mean, self.coherence, self.difference]


OTHERS = ("direction", "distance", "mean", "coherence", "difference")


class RingRows(eqx.Module):
    """Rules as arrays with one row for each; `quantiles` are n, slope and n values of each quantity."""

    names: tuple[str, ...] = eqx.field(static=True)
    # With j = floor(n u), the value for a uniform number u is values[j] + (n u - j) slope.
    quantiles: Float[Array, "*rule quantity number"]
    is_shown: Bool[Array, "*rule stimulus epoch"]
    fixation_ends: Bool[Array, "*rule"]
    is_independent: Bool[Array, "*rule"]
    rings: Int[Array, "*rule"]
    response: Int[Array, "*rule"]
    relevant: Float[Array, "*rule ring"]
    match_probability: Float[Array, "*rule"]


def rows_of(rules: Mapping[str, RingRule] | RingRows) -> RingRows:
    """Return the rows of rules by name; rows as they are."""
    if isinstance(rules, RingRows):
        return rules
    checks.check_instance("rules", rules, Mapping, 'rules by name, such as {"go": rule}')
    checks.as_parts("rules", list(rules.values()), RingRule, "rules by name")
    quantities = {name: rule.quantities() for name, rule in rules.items()}
    tables = [[_quantile_row(name, each) for each in drawn] for name, drawn in quantities.items()]
    width = max(len(row) for rows in tables for row in rows)
    padded = [[row + [row[-1]] * (width - len(row)) for row in rows] for rows in tables]
    each = list(rules.values())
    shown = [
        [[epoch in names for epoch in EPOCHS] for names in (rule.first_shown, rule.second_shown)]
        for rule in each
    ]
    return RingRows(
        names=tuple(rules),
        quantiles=checks.as_float_array(padded),
        is_shown=jnp.asarray(shown),
        fixation_ends=jnp.asarray([rule.fixation_ends for rule in each]),
        is_independent=jnp.asarray([rule.distance is None for rule in each]),
        rings=jnp.asarray([RINGS.index(rule.rings) for rule in each]),
        response=jnp.asarray([RESPONSES.index(rule.response) for rule in each]),
        relevant=checks.as_float_array([RELEVANT[rule.relevant] for rule in each]),
        match_probability=jnp.stack([rule.match_probability for rule in each]),
    )


def _quantile_row(name: str, distribution: AbstractDistribution) -> list[float]:
    """Return n, slope and values of `RingRows.quantiles`."""
    match distribution:
        case Constant(value=value):
            row = [1.0, 0.0, np.asarray(value)]
        case Uniform(low=low, high=high):
            row = [1.0, np.asarray(high) - np.asarray(low), np.asarray(low)]
        case Choice(values=values):
            row = [values.shape[0], 0.0, *np.asarray(values)]
        case _:
            raise ValueError(
                f"the rule {name!r} must draw from a Constant, a Uniform or a Choice, "
                f"got {checks.kind_of(distribution)}."
            )
    if any(np.ndim(number) for number in row):
        raise ValueError(f"the rule {name!r} must draw single numbers, got {distribution}.")
    return [float(number) for number in row]


def longest_steps(rows: RingRows, dt: float) -> int:
    """Return the number of time steps of the longest trial of rules."""
    durations = np.asarray(rows.quantiles, float)[:, : len(EPOCHS)]
    longest = durations[..., 1] + durations[..., 2:].max(axis=-1)
    return int(np.max(np.sum(whole_steps(longest, dt), axis=1)))


def shortest_response(rows: RingRows) -> float:
    """Return the duration of the shortest response of rules, in seconds."""
    return float(np.asarray(rows.quantiles)[:, EPOCHS.index("response"), 2:].min())


def whole_steps(seconds: Any, dt: float) -> Any:
    """Return the number of whole time steps in durations, as `int(t / dt)` in the published code."""
    return (seconds / dt + 1e-3).astype(int)  # against rounding in single precision


class RingDraw(eqx.Module):
    """What is drawn for a trial: steps of epochs, directions in rad, strengths (0 where not shown), match."""

    steps: Int[Array, "*trial epoch"]
    directions: Float[Array, "*trial stimulus"]
    strengths: Float[Array, "*trial stimulus ring"]
    is_match: Bool[Array, "*trial"]


class RingUniforms(eqx.Module):
    """Uniform numbers between 0 and 1 that decide about a trial. For two: of stimuli, or of rings."""

    durations: Float[Array, "*trial epoch"]
    directions: Float[Array, "*trial 2"]
    side: Float[Array, "*trial"]
    match: Float[Array, "*trial"]
    rings: Float[Array, "*trial 2"]
    means: Float[Array, "*trial 2"]
    coherences: Float[Array, "*trial 2"]
    coherence_signs: Float[Array, "*trial 2"]
    differences: Float[Array, "*trial 2"]
    difference_signs: Float[Array, "*trial 2"]


def draw_uniforms(*, key: Key[Array, ""]) -> RingUniforms:
    """Draw the numbers of a trial."""
    drawn = jax.random.uniform(key_stream(key, "conditions"), (22,))
    durations, directions, side, match, *pairs = jnp.split(drawn, [6, 8, 9, 10, 12, 14, 16, 18, 20])
    return RingUniforms(durations, directions, side[0], match[0], *pairs)


def trial_draw(row: RingRows, uniforms: RingUniforms, dt: float) -> RingDraw:
    """Return what the row of a rule draws from uniform numbers."""
    durations = _values(row.quantiles[: len(EPOCHS)], uniforms.durations)
    tables = dict(zip(OTHERS, row.quantiles[len(EPOCHS) :], strict=True))
    is_match = uniforms.match < row.match_probability
    first, independent = _values(tables["direction"], uniforms.directions)
    distance = _values(tables["distance"], uniforms.directions[1]) * _sign(uniforms.side)
    second = first + jnp.where(is_match, 0.0, distance)
    directions = jnp.mod(jnp.stack([first, jnp.where(row.is_independent, independent, second)]), 2 * jnp.pi)

    means = _values(tables["mean"], uniforms.means)
    coherences = _values(tables["coherence"], uniforms.coherences) * _sign(uniforms.coherence_signs)
    strengths = jnp.stack([means + coherences, means - coherences])
    is_shared = jnp.all(row.relevant > 0)
    strengths = jnp.where(is_shared, strengths[:, :1], strengths)
    difference = _values(tables["difference"], uniforms.differences) * _sign(uniforms.difference_signs)
    strengths = strengths * (1 + difference[:, None] / 2 * jnp.array([1.0, -1.0]))
    return RingDraw(
        steps=whole_steps(durations, dt),
        directions=directions,
        strengths=jnp.where(_in_ring(row, uniforms.rings), strengths, 0.0),
        is_match=is_match,
    )


def _values(table: Float[Array, "*quantity number"], u: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return the value of a quantity for uniform numbers; see `RingRows.quantiles`."""
    n, slope, values = table[..., 0], table[..., 1], table[..., 2:]
    scaled = n * u
    index = jnp.minimum(jnp.floor(scaled), n - 1)
    is_value = jnp.arange(values.shape[-1]) == index[..., None].astype(int)
    return jnp.sum(jnp.where(is_value, values, 0.0), axis=-1) + (scaled - index) * slope


def _sign(u: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    return jnp.where(u < 0.5, 1.0, -1.0)


def _in_ring(row: RingRows, u: Float[Array, " stimulus"]) -> Bool[Array, "stimulus ring"]:
    """Return whether each stimulus is shown in each ring."""
    ring = jnp.arange(2)
    drawn = (u[:, None] >= 0.5) == (ring == 1)
    fixed = (row.rings == RINGS.index("both")) | (row.rings == ring)
    return jnp.where(row.rings == RINGS.index("either"), drawn, fixed)


def response_of(row: RingRows, draw: RingDraw) -> tuple[Float[Array, ""], Bool[Array, ""], Bool[Array, ""]]:
    """Return the direction of the response in rad, whether there is one, and whether the stimuli match."""
    first, second = draw.directions
    kind = RESPONSES.index
    by_category = row.response >= kind("same category")
    same_half = (first < jnp.pi) == (second < jnp.pi)
    is_match = jnp.where(by_category, same_half, draw.is_match)
    wants_match = (row.response == kind("match")) | (row.response == kind("same category"))
    responds = (row.response < kind("match")) | (is_match == wants_match)
    totals = draw.strengths @ row.relevant
    stronger = jnp.where(totals[0] > totals[1], first, second)
    direction = jnp.where(row.response >= kind("match"), second, first)
    direction = jnp.where(row.response == kind("anti"), first + jnp.pi, direction)
    return jnp.where(row.response == kind("stronger"), stronger, direction), responds, is_match
