"""Drawings of the parts of models: bodies, muscles, networks and learning rules."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from popsim.analysis.figures import draw_body, figure_style, plant_motion
from popsim.muscles import AbstractActivation, AbstractRigidTendonMuscle, BrownLoebMuscle, arm26_muscles
from popsim.networks import build_network
from popsim.plants import AbstractPlant, simulate_plant
from popsim.training.rules import BCM, AbstractLocalRule, Synapses

DT = 0.01  # s

N_STEPS = 20  # of a body under a constant command
COMMANDS = {"point-mass": (2.0, 1.0), "two-link-arm": (1.5, 0.8)}  # N, N m
EXCITATION = 0.3  # of the first muscle of other bodies
STARTS = ((0.3, 0.1), (0.1, 0.3), (-0.2, 0.2))  # weights before a rule changes them
PATTERNS = ((1.0, 0.3), (0.3, 1.0))  # of two inputs, in turn
WEIGHT_RANGE = 2.4


def _panels(count: int, *, height: float, sharey: bool = False) -> tuple[Figure, list[Any]]:
    """Return a figure with as many axes, three in a row of a height in inches."""
    n_rows = -(-count // 3)
    figure, axes = plt.subplots(
        n_rows, 3, sharey=sharey, squeeze=False, figsize=(7.2, height * n_rows), layout="constrained"
    )
    panels = list(axes.flat)
    for ax in panels[count:]:
        ax.remove()
    return figure, panels[:count]


def draw_bodies(bodies: Mapping[str, Callable[[], AbstractPlant]], path: Path) -> None:
    """Draw bodies after 0.2 s of a constant command from rest."""
    with figure_style():
        figure, axes = _panels(len(bodies), height=2.4)
        for ax, (name, build) in zip(axes, bodies.items(), strict=True):
            plant = build()
            command = jnp.asarray(COMMANDS.get(name, EXCITATION * np.eye(plant.n_commands)[0]))
            states = simulate_plant(plant, jnp.tile(command, (N_STEPS, 1)), dt=DT).state
            draw_body(ax, plant_motion(plant, states, dt=DT)).set_title(name)
            ax.get_legend().remove()
        _save(figure, path)


def draw_muscle_laws(laws: Iterable[type[AbstractRigidTendonMuscle]], path: Path) -> None:
    """Draw force against length and velocity of the fibre, of the first muscle of arm26 by each law."""
    lengths, speeds = jnp.linspace(0.4, 1.7, 131), jnp.linspace(-10.0, 10.0, 201)
    still, optimal = jnp.zeros_like(lengths), jnp.ones_like(speeds)
    with figure_style():
        figure, (active, passive, moving) = plt.subplots(
            1, 3, sharey=True, figsize=(7.2, 2.6), layout="constrained"
        )
        for law in laws:
            build: Any = BrownLoebMuscle.li_todorov if law is BrownLoebMuscle else law
            force = _force_share(arm26_muscles(build))
            active.plot(lengths, force(jnp.ones_like(lengths), lengths, still), label=law.__name__)
            passive.plot(lengths, force(jnp.zeros_like(lengths), lengths, still))
            moving.plot(speeds, force(jnp.ones_like(speeds), optimal, speeds))
        active.set(title="fully active, isometric", ylabel="force / maximal isometric force", ylim=(0, 2.5))
        passive.set(title="at rest, isometric")
        moving.set(title="fully active, at optimal length", xlabel="velocity (optimal lengths/s)")
        for ax in (active, passive):
            ax.set_xlabel("length (optimal lengths)")
        figure.legend(*active.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        _save(figure, path)


def _force_share(muscle: Any) -> Callable:
    """Return the force of the first muscle as a fraction, of many activations, lengths and velocities."""

    def share(activation, length, velocity):
        values = (
            jnp.full(muscle.max_isometric_force.shape, value) for value in (activation, length, velocity)
        )
        return muscle.force_share(*values)[0]

    return jax.jit(jax.vmap(share))


def draw_activations(kinds: Iterable[Any], path: Path) -> None:
    """Draw activation by each class of dynamics, while excitation is on for 0.3 s, weakly and fully."""
    steps = np.arange(60)
    with figure_style():
        figure, axes = plt.subplots(1, 2, sharey=True, figsize=(5.4, 2.4), layout="constrained")
        for ax, excitation in zip(axes, (0.3, 1.0), strict=True):
            command = np.where(steps < 30, excitation, 0.0)
            for kind in kinds:
                ax.plot(DT * (steps + 1), _respond(kind(), command), label=kind.__name__)
            ax.step(DT * (steps + 1), command, color="0.6", label="excitation")
            ax.set(xlabel="time (s)")
        axes[0].set_ylabel("activation")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        _save(figure, path)


def _respond(activation: AbstractActivation, command: np.ndarray) -> np.ndarray:
    def advance(value, excitation):
        value = activation.advance(DT, value, excitation[None])
        return value, value[0]

    rest = jnp.broadcast_to(activation.lowest, (1,)).astype(float)
    return np.asarray(jax.lax.scan(advance, rest, jnp.asarray(command))[1])


def draw_networks(names: Sequence[str], path: Path) -> None:
    """Draw the activity of a few units of registered networks, untrained, after a pulse of input."""
    steps = np.arange(100)
    pulse = np.where((steps >= 10) & (steps < 30), 1.0, 0.0)
    with figure_style():
        figure, axes = _panels(len(names), height=2.0, sharey=True)
        for ax, name in zip(axes, names, strict=True):
            _draw_pulse_response(ax, name, pulse)
            ax.set(title=name, xlabel="time (s)")
            ax.set_ylabel("activity")
        _save(figure, path)


def _draw_pulse_response(ax: Axes, name: str, pulse: np.ndarray) -> None:
    network = build_network(name, 1, 64, 1, dt=DT, key=jax.random.key(0))
    key = jax.random.key(1)

    def step(hidden, value):
        hidden = network.step(value[None], hidden, key=key)
        return hidden, network.activity(hidden)[:8]

    ax.axvspan(0.1, 0.3, color="0.9")
    ax.plot(
        DT * (np.arange(pulse.size) + 1), jax.lax.scan(step, network.init(key=key), jnp.asarray(pulse))[1]
    )


class _TwoInputs(Synapses):
    """Synapses of a linear unit, whose weights are the model and whose inputs are the batch."""

    def pre_activity(self, batch: Any) -> Any:
        return batch.trials

    def post_activity(self, batch: Any) -> Any:
        return batch.trials @ batch.model.T

    def update(self, model, change):
        return change


class _Batch(eqx.Module):
    model: Any
    trials: Any


def hebbian(rules: Iterable[type]) -> list[type]:
    """Return the rules that know activity alone."""
    return [rule for rule in rules if issubclass(rule, (AbstractLocalRule, BCM))]


def draw_hebbian_rules(rules: Sequence[type], path: Path) -> None:
    """Draw how the weights of a linear unit with two inputs change by each rule."""
    turns = np.asarray(PATTERNS)[np.arange(40) % 2]
    inputs = jnp.asarray(turns + np.random.default_rng(0).normal(scale=0.1, size=(10, *turns.shape)))
    with figure_style():
        figure, axes = plt.subplots(
            1, len(rules), sharex=True, sharey=True, figsize=(1.7 * len(rules), 2.1), layout="constrained"
        )
        for ax, rule in zip(axes, rules, strict=True):
            for pattern in PATTERNS:
                ax.annotate("", pattern, (0, 0), arrowprops={"arrowstyle": "->", "color": "0.6"})
            for start in STARTS:
                weights = _learn(rule, jnp.asarray([start]), inputs)
                within = np.abs(weights).max(axis=1) <= 1.5 * WEIGHT_RANGE
                ax.plot(*weights[: len(within) if within.all() else within.argmin()].T, color="C0")
                ax.plot(*start, "o", color="C0", markersize=3)
            ax.set(
                title=rule.__name__, xlim=(-WEIGHT_RANGE, WEIGHT_RANGE), ylim=(-WEIGHT_RANGE, WEIGHT_RANGE)
            )
            ax.set(aspect="equal", xlabel="weight of input 1")
        axes[0].set_ylabel("weight of input 2")
        _save(figure, path)


def _learn(kind: Any, start: jax.Array, inputs: jax.Array) -> np.ndarray:
    """Return the weights of a unit over 1,500 batches by a rule."""
    rule = kind(
        _TwoInputs(lambda weights: weights), rate=0.02, **({"time_constant": 5.0} if kind is BCM else {})
    )

    def learn(carry, key):
        weights, state = carry
        change, state = rule(weights, _Batch(weights, inputs), state, key=key)
        return (weights + change, state), weights[0]

    keys = jax.random.split(jax.random.key(0), 1500)
    return np.asarray(jax.lax.scan(learn, (start, rule.init(start)), keys)[1])


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path)
    plt.close(figure)
