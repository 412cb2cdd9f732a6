"""The base class of interventions, and their application by models."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import check_finite
from popsim.hand import HandState, Load
from popsim.model import AbstractModel
from popsim.parameters import Constants
from popsim.randomness import key_stream
from popsim.trial import InterventionSchedule, Trial

__all__ = [
    "Stage",
    "AbstractIntervention",
    "check_interventions",
    "check_scheduled",
    "prepare",
    "intervene",
    "external_load",
]


def check_parameter(name: str, parameter: Array, *shapes: tuple[int, ...]) -> None:
    """Raise `ValueError` unless a parameter of intervention `name` is floating-point of one of `shapes`."""
    if parameter.shape not in shapes:
        expected = " or ".join(str(shape) for shape in shapes)
        raise ValueError(f"the parameter of {name!r} must have shape {expected}, got {parameter.shape}.")
    if not jnp.issubdtype(parameter.dtype, jnp.floating):
        raise ValueError(f"the parameter of {name!r} must be floating-point, got {parameter.dtype}.")


def name_of_parameters(intervention: "AbstractIntervention", part: str = "") -> str:
    """Return what the parameters of an intervention are called in error messages."""
    return f"interventions[{intervention.name!r}].parameters{part}"


Stage = Literal["sense", "think", "act", "move"]
Parameters = PyTree[Array]
State = PyTree[Array]
Schedules = dict[str, InterventionSchedule]


class AbstractIntervention(eqx.Module):
    """Base class of interventions: they change the state of a model after one of the stages of its step, or
    load the body during the stage "move".

    The stages are those of a `SensorimotorLoop`; a `NetworkModel` has the first two. The model holds the
    intervention; a trial that schedules it under the same `name` sets its parameters and the time steps at
    which it acts. It adds no operation to trials that do not schedule it, and does not act on the initial
    state of a trial.

    Subclasses implement `name`, `after_stage` (the stage after which it acts; "act" for a load), and `apply`
    or `load`; they may extend `check` and `prepare`.

    !!! example

        ```python
        >>> import dataclasses, equinox as eqx, jax.numpy as jnp, popsim
        >>> class Damp(popsim.interventions.AbstractIntervention):
        ...     "Make the command smaller by the factor that is its parameter."
        ...     name: str = eqx.field(static=True, default="damp")
        ...     after_stage: popsim.interventions.Stage = eqx.field(static=True, default="act")
        ...     def apply(self, parameters, state, *, key):
        ...         return dataclasses.replace(state, command=parameters * state.command)
        >>> class Spring(popsim.interventions.AbstractIntervention):
        ...     "Pull the hand to the origin; its parameter is the stiffness in N/m."
        ...     name: str = eqx.field(static=True, default="spring")
        ...     after_stage: popsim.interventions.Stage = eqx.field(static=True, default="act")
        ...     def load(self, parameters):
        ...         return popsim.plants.Load(lambda hand: -parameters * hand.position)
        >>> hand = popsim.HandState(jnp.array([0.1, 0.0]), jnp.zeros(2))
        >>> Spring().load(jnp.array(10.0)).hand_force(hand).tolist()
        [-1.0, -0.0]

        ```
    """

    constants: ClassVar[Constants] = "all"
    name: eqx.AbstractVar[str]
    after_stage: eqx.AbstractVar[Stage]

    def __check_init__(self):
        check_fields(self)

    def apply(self, parameters: Parameters, state: State, *, key: Key[Array, ""]) -> State:
        """Return the changed state, of the same structure; by default unchanged.

        A force that is added to `external_force` after "sense", "think" or "act" is constant over the step.

        **Arguments:**

        - `parameters`: the parameters in the trial.
        - `state`: the state after the stage: a `LoopState`, or the state of a `NetworkModel`.
        - `key`: for random interventions.
        """
        return state

    def apply_in(
        self, model: AbstractModel | None, parameters: Parameters, state: State, *, key: Key[Array, ""]
    ) -> State:
        """Return the changed state in a given model; by default what `apply` returns.

        Override it instead of `apply` if the change depends on the model, such as on the activity of its
        network. Other arguments are as for `apply`.

        **Arguments:**

        - `model`: the model that holds the intervention; None if `intervene` is called without one.
        """
        return self.apply(parameters, state, key=key)

    def load(self, parameters: Parameters) -> Load:
        """Return the load on the body, as functions of its state; by default none.

        The plant's solver evaluates the load at every stage of every substep.

        **Arguments:**

        - `parameters`: the parameters in the trial.
        """
        return Load()

    def check(self, parameters: Parameters) -> None:  # noqa: B027
        """Check the parameters of concrete trials, before anything is compiled; by default all are accepted.

        **Arguments:**

        - `parameters`: the parameters, each array with the leading axis of trials.
        """

    def prepare(self, parameters: Parameters, state: State) -> State:
        """Return the initial state of a trial that schedules the intervention; by default unchanged.

        Extend it to fill fields that are None in other trials, such as `LoopState.unit_input`.
        """
        return state

    def prepare_in(self, model: AbstractModel | None, parameters: Parameters, state: State) -> State:
        """Return the initial state in a given model; by default what `prepare` returns. See `apply_in`."""
        return self.prepare(parameters, state)


def check_interventions(interventions: tuple[AbstractIntervention, ...]) -> None:
    """Check the names and the stages of interventions."""
    names = [intervention.name for intervention in interventions]
    if len(set(names)) < len(names):
        raise ValueError(f"`interventions` must have different names, got {names}.")
    for intervention in interventions:
        changes, loads = (
            any(_implements(intervention, method) for method in methods)
            for methods in (("apply", "apply_in"), ("load",))
        )
        stages = ("act",) if loads else get_args(Stage)
        if intervention.after_stage not in stages:
            raise ValueError(
                f"`after_stage` of the intervention {intervention.name!r} must be one of {stages}, "
                f"got {intervention.after_stage!r}."
            )
        if not changes and not loads:
            raise ValueError(f"The intervention {intervention.name!r} must implement `apply` or `load`.")


def _implements(intervention: AbstractIntervention, method: str) -> bool:
    return getattr(type(intervention), method) is not getattr(AbstractIntervention, method)


def check_scheduled(interventions: tuple[AbstractIntervention, ...], trials: Trial) -> None:
    """Raise `ValueError` if trials schedule unknown interventions, or parameters that are not allowed."""
    names = {intervention.name for intervention in interventions}
    unheld = set(trials.interventions) - names
    if unheld:
        raise ValueError(
            f"`interventions` of the model must hold those that the trials schedule, {sorted(unheld)}, "
            f"got {sorted(names)}."
        )
    for name, schedule in trials.interventions.items():
        for path, leaf in jax.tree.leaves_with_path(schedule.parameters):
            check_finite(f"interventions[{name!r}].parameters{jax.tree_util.keystr(path)}", leaf)
    for intervention in interventions:
        if intervention.name in trials.interventions:
            intervention.check(trials.interventions[intervention.name].parameters)


def prepare(
    interventions: tuple[AbstractIntervention, ...],
    scheduled: Schedules,
    state: State,
    *,
    model: AbstractModel | None = None,
) -> State:
    """Return the initial state of a trial, prepared by each intervention that the trial schedules.

    `model` is the model that holds the interventions, as for `intervene`.
    """
    for intervention in interventions:
        if intervention.name in scheduled:
            state = intervention.prepare_in(model, scheduled[intervention.name].parameters, state)
    return state


def intervene(
    interventions: tuple[AbstractIntervention, ...],
    stage: Stage,
    scheduled: Schedules,
    state: State,
    *,
    model: AbstractModel | None = None,
    key: Key[Array, ""],
) -> State:
    """Apply the active interventions that follow `stage`, in order.

    `key` is the key of the time step; each intervention draws from its own stream of it. `model` is the model
    that holds the interventions; without it, those on units need a hidden state that is one array.
    """
    for intervention in interventions:
        if intervention.name in scheduled and intervention.after_stage == stage:
            schedule = scheduled[intervention.name]
            # By name: draws do not depend on which other interventions a trial schedules.
            draw_key = key_stream(key, f"intervention {intervention.name}")
            changed = intervention.apply_in(model, schedule.parameters, state, key=draw_key)
            state = _where(schedule.active, changed, state)
    return state


def _where(condition: Bool[Array, ""], then: PyTree[Array], otherwise: PyTree[Array]) -> PyTree[Array]:
    return jax.tree.map(  # leaves that did not change add no operation
        lambda new, old: old if new is old else jnp.where(condition, new, old), then, otherwise
    )


def external_load(
    interventions: tuple[AbstractIntervention, ...],
    scheduled: Schedules,
    constant: Float[Array, " space"],
) -> Load:
    """Return the load on a body: the force `constant` on its hand (N), and the active interventions."""
    loads = _scheduled_loads(interventions, scheduled)
    on_hand = [(load.on_hand, active) for load, active in loads if load.on_hand is not None]
    on_joints = [(load.on_coordinates, active) for load, active in loads if load.on_coordinates is not None]
    # A mass of zero, not an absent one, while inactive: the program must be the same in all time steps.
    masses = [jnp.where(active, load.hand_mass, 0.0) for load, active in loads if load.hand_mass is not None]

    def force(hand: HandState) -> Float[Array, " space"]:
        return _sum_of_active(on_hand, constant, hand)

    def torque(
        coordinates: Float[Array, " coordinates"], velocities: Float[Array, " coordinates"]
    ) -> Float[Array, " coordinates"]:
        return _sum_of_active(on_joints, jnp.zeros_like(coordinates), coordinates, velocities)

    return Load(force, torque if on_joints else None, sum(masses[1:], masses[0]) if masses else None)


def kinds_of_load(interventions: tuple[AbstractIntervention, ...], scheduled: Schedules) -> tuple[str, ...]:
    """Return the kinds of load on a body, of `check_feels_load`, that are scheduled."""
    loads = [load for load, _ in _scheduled_loads(interventions, scheduled)]
    parts = {"force": "on_hand", "torque": "on_coordinates", "mass": "hand_mass"}
    kinds = [k for k, part in parts.items() if any(getattr(load, part) is not None for load in loads)]
    signals = [getattr(each, "signal", None) for each in interventions if each.name in scheduled]
    return (*kinds, "force") if "external_force" in signals else tuple(kinds)


def _scheduled_loads(
    interventions: tuple[AbstractIntervention, ...], scheduled: Schedules
) -> list[tuple[Load, Bool[Array, "..."]]]:
    schedules = [(each, scheduled[each.name]) for each in interventions if each.name in scheduled]
    return [(each.load(schedule.parameters), schedule.active) for each, schedule in schedules]


def _sum_of_active(
    functions: Sequence[tuple[Callable[..., Array], Bool[Array, ""]]], first: Array, *state: Any
) -> Array:
    total = first
    for function, active in functions:
        # A selection rather than a product with `active`: a force that is infinite while inactive would give
        # NaN.
        total = jnp.where(active, total + function(*state), total)
    return total
