"""Losses on commands, activity, muscles and weights."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from popsim.environment import Box
from popsim.loss import AbstractLossTerm
from popsim.losses.profiles import AbstractDistance, AbstractSumOfSquares, Scalar, SquaredDistance
from popsim.model import AbstractModel
from popsim.networks.activity import UnitSelector, activity_over_time
from popsim.parameters import picked_parameters
from popsim.plants import MusculoskeletalPlant
from popsim.policies import AbstractPolicy
from popsim.trial import Trial

__all__ = [
    "Effort",
    "EffortChange",
    "HiddenActivity",
    "HiddenActivityChange",
    "MuscleActivation",
    "MuscleForce",
    "MuscleForceChange",
    "WeightPenalty",
]


def rate_of_change(values: Float[Array, "time features"], dt: float) -> Float[Array, "time features"]:
    """Return (x_t - x_{t-1}) / dt, in the unit of x per second; zero at the first time step."""
    return jnp.diff(values, axis=0, prepend=values[:1]) / dt


class Effort(AbstractSumOfSquares):
    """Sum over time of w_t |u_t|², with u the network's command before motor noise, in its unit squared."""

    name: str = eqx.field(static=True, default="effort", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return _commands(states, model)


def _commands(states: Any, model: AbstractModel) -> Float[Array, "time features"]:
    """Return the commands before noise; with a policy of vectors, their means, without the critic."""
    policy, output = getattr(model, "policy", None), states.network.output
    if isinstance(policy, AbstractPolicy) and isinstance(policy.actions, Box):
        return jax.vmap(policy.best)(output)
    return output


class EffortChange(AbstractSumOfSquares):
    """Sum over time of w_t |du_t/dt|², where u is the network's command before motor noise.

    du_t/dt = (u_t - u_{t-1}) / dt, in the unit of the command per second, from the second step on. If the
    commands are torques, this is the cost of the minimum-torque-change model up to a factor of dt / 2 (Uno
    et al. 1989, Biol Cybern 61:89-101, abstract). Without a plant it penalises changes of the output.
    """

    looks_back = True
    name: str = eqx.field(static=True, default="effort change", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return rate_of_change(_commands(states, model), trial.timeline.dt)


class AbstractActivityTerm(AbstractSumOfSquares):
    """Base class of terms on the activity of the network's units."""

    units: UnitSelector | None = eqx.field(static=True, default=None, kw_only=True)

    def activity(self, states: Any, model: AbstractModel) -> Float[Array, "time unit"]:
        """Return the activity of the selected units."""
        return activity_over_time(self.name, states, model, self.units)


class HiddenActivity(AbstractActivityTerm):
    """Sum over time of w_t |h_t|², where h is the activity of the network's units.

    **Arguments:**

    - `units`: the units of h: the name of a group of the network, such as an area, or a function that selects
        a part of the hidden state at one time step, such as `lambda hidden: hidden[:10]`; by default h is
        `network.activity(hidden)`, all units.
    """

    name: str = eqx.field(static=True, default="hidden activity", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return self.activity(states, model)


class HiddenActivityChange(AbstractActivityTerm):
    """Sum over time of w_t |dh_t/dt|², in 1/s², where h is the activity of the network's units.

    dh_t/dt = (h_t - h_{t-1}) / dt, from the second step on. It penalises fast hidden trajectories.
    `units` selects h as for `HiddenActivity`.
    """

    looks_back = True
    name: str = eqx.field(static=True, default="hidden activity change", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return rate_of_change(self.activity(states, model), trial.timeline.dt)


def muscles_of(term: str, model: AbstractModel) -> MusculoskeletalPlant:
    """Return the muscled plant of a model; `term` names the loss term in the error message."""
    body = getattr(model, "plant", None)
    if isinstance(body, MusculoskeletalPlant):
        return body
    kind = f"a {type(model).__name__} without a body" if body is None else f"a {type(body).__name__}"
    raise ValueError(
        f"`model` must have a body with muscles, a MusculoskeletalPlant, for the term {term!r}, got {kind}."
    )


def relative_forces(term: str, states: Any, model: AbstractModel) -> Float[Array, "time muscles"]:
    """Return the muscle forces over time, in maximal isometric forces; raises as `muscles_of`."""
    body = muscles_of(term, model)
    return jax.vmap(body.muscles)(states.plant).force / body.muscle.max_isometric_force


class MuscleActivation(AbstractSumOfSquares):
    """Sum over time of w_t |a_t|², where a is the activations of the muscles, from zero to one."""

    name: str = eqx.field(static=True, default="muscle activation", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        muscles_of(self.name, model)
        return states.plant.activation


class MuscleForce(AbstractSumOfSquares):
    """Sum over time of w_t |f_t|², where f is the muscle forces in maximal isometric forces.

    Strong and weak muscles thus have equal weight. Passive forces are included.
    """

    name: str = eqx.field(static=True, default="muscle force", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return relative_forces(self.name, states, model)


class MuscleForceChange(AbstractSumOfSquares):
    """Sum over time of w_t |df_t/dt|², in 1/s², where f is the muscle forces in maximal isometric forces.

    df_t/dt = (f_t - f_{t-1}) / dt, from the second step on.
    """

    looks_back = True
    name: str = eqx.field(static=True, default="muscle force change", kw_only=True)

    def signal(self, states: Any, trial: Trial, model: AbstractModel) -> Float[Array, "time features"]:
        return rate_of_change(relative_forces(self.name, states, model), trial.timeline.dt)


class WeightPenalty(AbstractLossTerm):
    """|W|², the sum of squares of selected weights: an L2 penalty that passes through the optimizer.

    `WeightPenalty(lambda model: model.network.cell.weight_hh, distance=L1Distance())` favours sparse weights.
    For a penalty on a function of the weights, use a `popsim.FunctionTerm`.

    **Arguments:**

    - `where`: selects parts of the model, whose parameters count (`popsim.is_parameter`), or single arrays,
        which always count. An array selected twice counts once.
    - `distance`: replaces |·|², applied to all these weights as one vector: `SquaredDistance`, `L1Distance`,
        `EuclideanDistance` or `HuberDistance(delta)`.
    """

    where: Callable[[Any], Any] = eqx.field(static=True)
    distance: AbstractDistance = eqx.field(default=SquaredDistance(), kw_only=True)
    name: str = eqx.field(static=True, default="weight penalty", kw_only=True)

    def __call__(self, states: Any, trial: Trial, model: AbstractModel) -> Scalar:
        try:
            picked = picked_parameters(model, self.where, argument="`where` of WeightPenalty")
        except ValueError as error:
            raise ValueError(f"{error} (A cost of what weights make is a FunctionTerm.)") from error
        weights = jax.tree.leaves(eqx.filter(model, picked))
        return self.distance(jnp.concatenate([leaf.ravel() for leaf in weights]))
