"""The base class of models, and their simulation over a trial."""

import abc
import math
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from popsim._compiled import jit
from popsim._shared.checks import kind_of, short_repr
from popsim._shared.other_draws import refuse_other_draws
from popsim._shared.text_checks import one_line
from popsim.network_input import TrainedInputs, as_trained_inputs, inputs_by_name
from popsim.parameters import replace_fields
from popsim.randomness import as_key, key_stream
from popsim.session import separate_trials
from popsim.trial import SessionTrials, StepInput, Trial, check_one_trial, n_trials

__all__ = ["AbstractModel", "simulate"]

STEPS = "steps"
"""The key stream of a trial from which the noise of its time steps is drawn."""


class Unrecorded(eqx.Module):
    """Base class of parts of a state that `simulate` does not keep: they would take much memory."""


class DelayBuffer(Unrecorded):
    """The last `delay` values of a signal, oldest first."""

    values: Float[Array, "delay features"]

    @classmethod
    def filled(cls, value: Float[Array, " features"], n_steps: int) -> "DelayBuffer":
        """Return a buffer of `n_steps` steps filled with `value`."""
        return cls(jnp.broadcast_to(value, (n_steps, *value.shape)))

    def push(
        self, value: Float[Array, " features"], n_back: int | Int[Array, ""] | None = None
    ) -> tuple[Float[Array, " features"], "DelayBuffer"]:
        """Append the value of this step; return the value of `n_back` steps ago, by default `delay` steps,
        and the new buffer."""
        values = jnp.concatenate([self.values, value[None]])
        arriving = values[0] if n_back is None else values[self.values.shape[0] - n_back]
        return arriving, DelayBuffer(values[1:])


class AbstractModel(eqx.Module):
    """Base class of models: anything that runs through a trial, such as a network, or a network and an arm.

    Subclasses implement `init` and `step`, both pure, for one trial of one member; batches and ensembles are
    made with `jax.vmap`. They may extend `check`. All floating-point arrays are learned except those that the
    model, or a module in it, declares as `constants`; see `popsim.is_parameter`.

    A model that was trained knows the names and the sizes of its inputs, as `trained_inputs`, and takes no
    others: networks tell them apart by their order, which follows from the names. One that was never trained
    takes any.

    !!! example

        ```python
        >>> import equinox as eqx, jax, jax.numpy as jnp, popsim
        >>> class Integrator(popsim.AbstractModel):
        ...     gain: jax.Array
        ...     def init(self, trial, *, key):
        ...         return jnp.zeros(1)
        ...     def step(self, step_input, state, *, key):
        ...         return state + self.gain * step_input.inputs
        >>> trial = popsim.Trial(
        ...     init=(), inputs=jnp.ones((4, 1)), targets=(), timeline=popsim.Timeline(dt=0.01, n_steps=4)
        ... )
        >>> popsim.simulate(Integrator(jnp.array(2.0)), trial, key=jax.random.key(0))[:, 0].tolist()
        [2.0, 4.0, 6.0, 8.0]

        ```
    """

    # Set by the converter where a subclass has an `__init__` of its own, so that all models have the field.
    trained_inputs: TrainedInputs = eqx.field(
        static=True, converter=as_trained_inputs, default=None, compare=False, repr=False, kw_only=True
    )

    @abc.abstractmethod
    def init(self, trial: Trial, *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return the state before the first step of `trial`: an Equinox module, or any PyTree of arrays.

        **Arguments:**

        - `trial`: one trial; `trial.init` is its starting point.
        - `key`: for random initial states.
        """

    @abc.abstractmethod
    def step(self, step_input: StepInput, state: PyTree[Array], *, key: Key[Array, ""]) -> PyTree[Array]:
        """Return the state one time step later, of the same structure.

        **Arguments:**

        - `step_input`: the trial at this time step.
        - `state`: the state at the start of the step.
        - `key`: for the noise of this step.
        """

    def resume(
        self, trial: Trial, state: PyTree[Array], carry: Collection[str], *, key: Key[Array, ""]
    ) -> PyTree[Array]:
        """Return the state before the first step of the next trial of a session; by default refused.

        **Arguments:**

        - `trial`: the trial that begins.
        - `state`: the state after the last step of the one before.
        - `carry`: what continues: some of "environment" and "hidden". The rest is that of `init`.
        - `key`: for random initial states.
        """
        raise ValueError(
            f"`model` must define how a trial of a session follows another, by `resume`, got {kind_of(self)}."
        )

    def record(self, state: PyTree[Array]) -> PyTree[Array]:
        """Return the part of a state that `simulate` keeps: by default, all but what is `Unrecorded`."""
        return jax.tree.map(
            lambda node: None if isinstance(node, Unrecorded) else node,
            state,
            is_leaf=lambda node: isinstance(node, Unrecorded),
        )

    def check(self, trials: Trial) -> None:  # noqa: B027
        """Check concrete, stacked trials before compilation; by default all are accepted."""

    def input_sizes(self, trials: Trial) -> dict[str, int]:
        """Return how many numbers of each input the model receives at a time step; by default the trial's.

        **Arguments:**

        - `trials`: stacked trials, no sessions.
        """
        return {
            name: sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(values))
            for name, values in sorted(inputs_by_name(trials.inputs).items())
        }

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows: the model as a tree if treescope is installed, else its text."""
        try:
            import treescope  # pyright: ignore[reportMissingImports]
        except ImportError:
            return None
        return treescope.render_to_html(self)


def check_model(name: str, model: Any) -> None:
    """Raise `ValueError` unless the argument called `name` is a model or an ensemble."""
    if not isinstance(model, AbstractModel):
        raise ValueError(
            f"`{name}` must be a model, or an ensemble such as popsim.make_ensemble(build, 5, key=key), "
            f"got {short_repr(model)}."
        )


ModelType = TypeVar("ModelType", bound=AbstractModel)


def with_trained_inputs(model: ModelType, sizes: Mapping[str, int] | None) -> ModelType:
    """Return a model, or an ensemble, that was trained with inputs of these sizes; None for unknown ones."""
    return replace_fields(model, trained_inputs=as_trained_inputs(sizes))


def initial_state(model: AbstractModel, trial: Trial, *, key: PRNGKeyArray) -> PyTree[Array]:
    """Return the state from which `simulate` with the same key starts."""
    if trial.session is not None:
        trial = jax.tree.map(lambda leaf: leaf[0], separate_trials(trial))
        key = jax.random.fold_in(key, 0)
    return model.init(trial, key=key_stream(key, "initial state"))


def simulate(model: AbstractModel, trial: Trial, *, remat: bool = False, key: PRNGKeyArray) -> PyTree[Array]:
    """Run a model through one trial.

    For batches of trials and ensembles, use `jax.vmap`, or see `popsim.evaluate` and
    `popsim.evaluate_ensemble`.

    **Arguments:**

    - `model`: the model.
    - `trial`: one trial, or a session of trials (`popsim.session.join_trials`).
    - `remat`: whether to recompute each step in the backward pass, which trades time for memory.
    - `key`: the key of the trial; the noise of step t depends only on it and on t.

    **Returns:** the recorded part of the states (`model.record`), with a leading time axis. Index t is the
    state after step t, at time (t + 1) dt.
    """
    key = as_key(key)
    check_model("model", model)
    check_one_trial("trial", trial)
    if model.trained_inputs.sizes is not None:
        model.trained_inputs.check(eqx.filter_eval_shape(_input_sizes, model, trial))
    return _simulate(model, trial, remat, key=key)


def _input_sizes(model: AbstractModel, trial: Trial) -> dict[str, int]:
    return model.input_sizes(separate_trials(jax.tree.map(lambda leaf: leaf[None], trial)))


@jit
def _simulate(model: AbstractModel, trial: Trial, remat: bool, *, key: Key[Array, ""]) -> PyTree[Array]:
    try:
        with refuse_other_draws("`init` and `step` of `model`", model, trial.environment):
            if trial.session is not None:
                return _simulate_session(model, trial, trial.session, remat, key=key)
            _, states = _run(model, trial, initial_state(model, trial, key=key), remat, key=key)
    except TypeError as error:
        raise ValueError(
            "`model` must run `trial`, a model of one member that takes its inputs, got a TypeError: "
            f"{one_line(error):.400}"
        ) from error
    return states


def _run(
    model: AbstractModel, trial: Trial, start: PyTree[Array], remat: bool, *, key: Key[Array, ""]
) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return the state after the last step of a trial that is no session, and the recorded states."""
    steps_key = key_stream(key, STEPS)

    def step(state, at_step):
        t, inputs, active = at_step
        state = model.step(trial.at_step(inputs, active), state, key=jax.random.fold_in(steps_key, t))
        return state, model.record(state)

    # Only what varies over time is a sequence of the scan; parameters of interventions are constants of it.
    active = {name: schedule.active for name, schedule in trial.interventions.items()}
    # In a scan, `prevent_cse` is not needed, and would foil other optimizations.
    body = jax.checkpoint(step, prevent_cse=False) if remat else step
    return jax.lax.scan(body, start, (jnp.arange(trial.timeline.n_steps), trial.inputs, active))


def _simulate_session(
    model: AbstractModel, trial: Trial, session: SessionTrials, remat: bool, *, key: Key[Array, ""]
) -> PyTree[Array]:
    """Return the recorded states of all trials of a session, one after the other."""
    trials = separate_trials(trial)
    numbers = jnp.arange(n_trials(trials))

    def run_trial(start, of_trial):
        number, trial, following = of_trial
        end, states = _run(model, trial, start, remat, key=jax.random.fold_in(key, number))
        end = jax.lax.stop_gradient(end) if session.cut_gradient else end
        next_key = key_stream(jax.random.fold_in(key, number + 1), "initial state")
        # After the last trial the first one follows here, which nobody sees.
        return model.resume(following, end, session.carry, key=next_key), states

    following = jax.tree.map(lambda leaf: jnp.roll(leaf, -1, axis=0), trials)
    start = initial_state(model, trial, key=key)
    _, states = jax.lax.scan(run_trial, start, (numbers, trials, following))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), states)
