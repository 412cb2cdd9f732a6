"""Networks that integrate the stream that a context names, against the ideal observer (Mante et al. 2013).

Two streams of noisy evidence go on side by side; a context says of which the sign is to be told. No network
can choose better than `references/ideal_observer.py`, which shares no code with popsim: an accuracy or a
psychometric slope above its is as much a fault as one far below. Prints the numbers of all members, draws
their psychometric curves, and exits with 1 when a gate fails, or when one of the controls passes: untrained
networks, the context swapped, evidence that goes on for longer than the observer is told.
"""

import dataclasses
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key

import popsim
from command_line import parse_options
from figures.context_integration import draw_figure
from gates import Row, exit_code, negative_controls, print_table
from network_training import train_networks
from popsim.analysis.behaviour import PsychometricFit, choice_fractions, fit_psychometric
from popsim.training import adam
from references import ideal_observer as reference

STREAMS = ("motion", "color")
COHERENCES = np.array([-0.5, -0.25, -0.12, -0.06, 0.06, 0.12, 0.25, 0.5])
NOISE = 1.0  # of the evidence at each time step, in units of coherence
DT, TAU = 0.02, 0.1  # s
STIMULUS, LONGER_STIMULUS, DELAY = 0.5, 0.6, 0.06  # s
N_UNITS, BATCH_SIZE = 48, 128
BLOCK = 4096  # test trials that are in memory at a time
LOWEST_SLOPE, LOWEST_ACCURACY = 0.93, 0.97  # relative to the ideal observer
STEEPEST_OTHER = 0.25  # per unit of coherence


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is trained, and in how many blocks of trials it is tested."""

    n_members: int
    n_batches: int
    n_blocks: int


FULL, QUICK = Size(5, 2000, 16), Size(2, 600, 8)


def cross_entropy(states, trial, model):
    towards_right = states.network.output[-1, 0] * (2 * trial.targets.values[-1, 0] - 1)
    return jax.nn.softplus(-towards_right)


class IntegrateInContext(popsim.AbstractTask):
    """Tell at the end of a trial the sign of the stream of evidence that the context names."""

    plan: popsim.TrialPlan
    loss: popsim.Loss = eqx.field(
        default_factory=lambda: 1.0 * popsim.FunctionTerm("cross entropy", cross_entropy)
    )

    def trial(self, *, batch, key):
        coherence = popsim.distributions.Choice(COHERENCES)
        coherences = [coherence.sample(key=popsim.key_stream(key, stream)) for stream in STREAMS]
        context = jax.random.randint(popsim.key_stream(key, "context"), (), 0, len(STREAMS))
        return self.trial_of(jnp.stack(coherences), context, key=popsim.key_stream(key, "evidence"))

    def validation_trials(self):
        pairs = jnp.asarray([(c, d, k) for c in COHERENCES for d in COHERENCES for k in range(len(STREAMS))])
        keys = jax.random.split(jax.random.key(0), len(pairs))
        return jax.vmap(lambda p, key: self.trial_of(p[:2], p[2].astype(int), key=key))(pairs, keys)

    def trial_of(
        self, coherences: Float[Array, " stream"], context: Int[Array, ""], *, key: Key[Array, ""]
    ) -> popsim.Trial:
        """The trial with these coherences and this context."""
        timeline = self.plan.nominal()
        shape = (timeline.n_steps, len(STREAMS))
        evidence = coherences + NOISE * jax.random.normal(key, shape)
        inputs = {
            "evidence": jnp.where(timeline.in_epoch("stimulus")[:, None], evidence, 0.0),
            "context": jnp.broadcast_to(jax.nn.one_hot(context, len(STREAMS)), shape),
        }
        is_right = jnp.full((timeline.n_steps, 1), coherences[context] > 0, float)
        target = popsim.OutputTarget(is_right, jnp.zeros(timeline.n_steps).at[-1].set(1.0))
        conditions = {"coherence": coherences, "context": context}
        return popsim.Trial((), inputs, target, timeline, conditions=conditions)


@dataclasses.dataclass(frozen=True)
class Choices:
    """What networks, and the ideal observer, chose in the same trials.

    - `coherences` [trial, stream], `contexts` [trial]: the trials.
    - `chose_right` [member, trial], `ideal` [trial]: whether the choice was right.
    """

    coherences: np.ndarray
    contexts: np.ndarray
    chose_right: np.ndarray
    ideal: np.ndarray

    def in_context(self, context: int) -> "Choices":
        """Those of one context."""
        is_context = self.contexts == context
        return Choices(
            self.coherences[is_context],
            self.contexts[is_context],
            self.chose_right[:, is_context],
            self.ideal[is_context],
        )

    def fits(self, context: int) -> PsychometricFit:
        """The psychometric curve of each member in one context."""
        choices = self.in_context(context)
        return fit_psychometric(choices.coherences, choices.chose_right)

    def slopes(self) -> np.ndarray:
        """Slopes [context, member, 2] for the stream that is to be judged and for the other one."""
        fits = [self.fits(context).slopes for context in range(len(STREAMS))]
        return np.stack([fits[0], np.flip(fits[1], axis=-1)])

    def shares_right(self) -> np.ndarray:
        """The share of choices to the right [context, stream, member, coherence]."""
        shares = np.empty((2, len(STREAMS), len(self.chose_right), len(COHERENCES)))
        for context, stream in np.ndindex(2, len(STREAMS)):
            choices = self.in_context(context)
            shares[context, stream] = choice_fractions(
                choices.coherences[:, stream], choices.chose_right
            ).fraction
        return shares


def build_task(stimulus: float = STIMULUS) -> IntegrateInContext:
    """The task with a stimulus of so many seconds."""
    epochs = (popsim.Epoch("stimulus", stimulus), popsim.Epoch("delay", DELAY))
    return IntegrateInContext(plan=popsim.TrialPlan(epochs, duration=stimulus + DELAY, dt=DT))


def build_ensemble(n_members: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """Untrained leaky networks."""

    def build(key):
        network = popsim.networks.LeakyRNN(2 * len(STREAMS), N_UNITS, 1, tau=TAU, dt=DT, gain=0.9, key=key)
        return popsim.NetworkModel(network, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(ensemble: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]) -> popsim.NetworkModel:
    """The trained ensemble."""
    optimizer = adam(optax.cosine_decay_schedule(3e-3, n_batches))
    return train_networks(build_task(), ensemble, optimizer, n_batches, BATCH_SIZE, key=key)


def choose(
    ensemble: popsim.NetworkModel,
    task: IntegrateInContext,
    keys: Key[Array, " block"],
    *,
    swapped: bool = False,
) -> Choices:
    """Choices in drawn trials, the same for all members; `swapped`: they are told the other context."""
    draw = jax.jit(jax.vmap(lambda key: task.trial(batch=0, key=key)))
    parts: list[Any] = []
    for block_key in keys:
        trials = draw(jax.random.split(block_key, BLOCK))
        evidence, context = trials.inputs["evidence"], trials.conditions["context"]
        ideal = evidence.sum(axis=1)[jnp.arange(BLOCK), context] > 0
        if swapped:
            trials = eqx.tree_at(lambda t: t.inputs["context"], trials, replace_fn=lambda cue: cue[..., ::-1])
        output = popsim.evaluate_ensemble(ensemble, task, trials=trials, key=block_key).states.network.output
        chose_right = (output[:, :, -1, 0] > 0).T
        parts.append(jax.device_get((trials.conditions["coherence"], context, chose_right, ideal)))
    coherences, contexts, chose_right, ideal = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Choices(coherences.astype(float), contexts, chose_right.T, ideal)


def slope_rows(choices: Choices, *, name: str = "") -> list[Row]:
    """The slope of each member for the stream that is to be judged, beside the ideal one and its error."""
    rows, ideal = [], reference.Evidence(round(STIMULUS / DT), NOISE).slope
    for context, stream in enumerate(STREAMS):
        coherences = choices.in_context(context).coherences
        slopes = ideal * np.eye(len(STREAMS))[context]
        error = float(reference.standard_errors(coherences, 0.0, slopes)[context]) / ideal
        gate = (LOWEST_SLOPE, 1 + 3 * error)
        for i, slope in enumerate(choices.fits(context).slopes[:, context]):
            rows.append(Row(f"{name}{stream}, slope", str(i), slope, ideal, error, gate))
    return rows


def other_slope_rows(choices: Choices, *, name: str = "") -> list[Row]:
    """The slope of each member for the stream that is to be disregarded, beside the steepest that passes."""
    rows = []
    for context, stream in enumerate(STREAMS):
        fit = choices.fits(context)
        for i, (slopes, errors) in enumerate(zip(fit.slopes, fit.slope_errors, strict=True)):
            cells = (str(i), slopes[1 - context], STEEPEST_OTHER, float(errors[1 - context]) / STEEPEST_OTHER)
            rows.append(Row(f"{name}{stream}, other slope", *cells, gate=(-1.0, 1.0)))
    return rows


def accuracy_rows(choices: Choices, *, name: str = "") -> list[Row]:
    """How often each member is right, beside the ideal observer."""
    rows = []
    for context, stream in enumerate(STREAMS):
        context_choices = choices.in_context(context)
        judged = context_choices.coherences[:, context]
        best = reference.Evidence(round(STIMULUS / DT), NOISE).accuracy(judged)
        error = (best * (1 - best) / len(judged)) ** 0.5 / best
        gate = (LOWEST_ACCURACY, 1 + 3 * error)
        for i, correct in enumerate(np.mean(context_choices.chose_right == (judged > 0), axis=1)):
            rows.append(Row(f"{name}{stream}, accuracy", str(i), correct, best, error, gate))
    return rows


def agreement_rows(choices: Choices) -> list[Row]:
    """How often each member chooses as the ideal observer does; only reported."""
    agree = np.mean(choices.chose_right == choices.ideal, axis=1)
    return [Row("as the ideal observer", str(i), fraction, 1.0) for i, fraction in enumerate(agree)]


CONTROLS = {
    "untrained": (slope_rows, accuracy_rows),
    "context swapped": (slope_rows, other_slope_rows, accuracy_rows),
    "longer stimulus": (slope_rows,),
}


def control_rows(tested: dict[str, Choices]) -> list[Row]:
    """Gates that are to fail: too low, of the wrong stream, and better than is possible."""
    rows = []
    for name, measures in CONTROLS.items():
        for measure in measures:
            rows += measure(tested[name], name=f"{name}, ")
    return negative_controls(rows)


def run(size: Size, seed: int) -> dict[str, Choices]:
    """Train, and let the networks choose: in the task, and as the controls do."""
    began, key = time.perf_counter(), jax.random.key(seed)
    untrained = build_ensemble(size.n_members, popsim.key_stream(key, "networks"))
    trained = train(untrained, size.n_batches, popsim.key_stream(key, "training"))
    print(
        f"{size.n_members} members, {size.n_batches} batches: {time.perf_counter() - began:.0f} s", flush=True
    )
    keys = jax.random.split(popsim.key_stream(key, "test"), size.n_blocks)
    return {
        "trained": choose(trained, build_task(), keys),
        "untrained": choose(untrained, build_task(), keys),
        "context swapped": choose(trained, build_task(), keys, swapped=True),
        "longer stimulus": choose(trained, build_task(LONGER_STIMULUS), keys),
    }


def main() -> int:
    """Train, test, print the table, draw the figure."""
    short = f"train {QUICK.n_members} members for {QUICK.n_batches} batches"
    options = parse_options(__file__, __doc__ or "", short_form=short)
    tested = run(QUICK if options.quick else FULL, options.seed)
    choices = tested["trained"]
    steep = slope_rows(choices)
    rows = steep + other_slope_rows(choices) + accuracy_rows(choices) + agreement_rows(choices)
    rows += control_rows(tested)
    print_table(rows, "found", "reference")
    ideal, highest = steep[0].reference, max(row.gate[1] for row in steep if row.gate is not None)
    gate = ((LOWEST_SLOPE * ideal, highest * ideal), (-STEEPEST_OTHER, STEEPEST_OTHER), ideal)
    slopes = {name: tested_choices.slopes() for name, tested_choices in tested.items()}
    print(*draw_figure(options.out, STREAMS, (COHERENCES, choices.shares_right()), slopes, gate), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
