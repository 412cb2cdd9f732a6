"""Networks with fast weights recall what belonged to a key, those without do not (Ba et al. 2016).

Four pairs of a key and a value are shown one after the other. Then one of the keys is asked for, and a few
steps later its value is to be put out. Leaky networks of 20 units learn this with fast weights, which hold
what the units did of late (arXiv 1610.06258), and without. Fast weights have no parameters, so that both
kinds have the same number of them, and start from the same ones; those without are trained four times as
long. The error of each network with fast weights has to be below a quarter of that of somebody who has lost
one of the four pairs, who must miss it, as must trained networks whose fast weights are weaker by 30 %.
Networks without fast weights, and trained ones whose fast weights are switched off, must not even have half
of the error of the best answer by somebody who knows the values, but not to which keys they belong. Prints
the numbers, draws the figure, and exits with 1 when a gate fails or a control passes.
"""

import dataclasses
import itertools
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

import popsim
from command_line import parse_options
from figures.fast_weights import Recalls, draw_figure
from gates import Row, exit_code, negative_controls, print_table, upper_bound_row
from popsim.losses import CrossEntropy
from popsim.training import TaskTrainer, adam, cosine_decay

N_PAIRS, N_KEYS, N_VALUES = 4, 10, 10
N_SYMBOLS = N_KEYS + N_VALUES
N_ANSWERING = 3  # steps from the question to the answer, in which activity settles
SYMBOL = 5.0  # the input of the symbol that is shown; with it units respond by about one
N_UNITS, DT = 20, 1.0  # a time step is the unit of time, and the time constant of the units
FAST_TAU, FAST_RATE = 20.0, 0.05  # of fast weights; within the 8 steps of a trial they keep two thirds
BATCH_SIZE, LEARNING_RATE, CLIP_NORM = 64, 0.01, 1.0
N_MEMBERS, N_TESTED = 5, 4000  # networks of each kind, trials
LARGEST_RATIO = 0.25  # of an error to that of who has lost a pair
CONTROL_RATIO = 0.5  # of that of a control to the error without keys
WEAKER = 0.7  # fast weights, relative to those with which networks were trained


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of network, and for how many batches it is trained."""

    plasticity: popsim.networks.FastWeights | None
    n_batches: int


KINDS = {
    "fast weights": Kind(popsim.networks.FastWeights(FAST_TAU, FAST_RATE), 2000),
    "plain": Kind(None, 8000),
}


class Recall(popsim.AbstractTask):
    """Put out the value that was shown with the key that is asked for."""

    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * CrossEntropy())

    def trial(self, *, batch, key):
        keys = jax.random.permutation(popsim.key_stream(key, "keys"), N_KEYS)[:N_PAIRS]
        values = jax.random.randint(popsim.key_stream(key, "values"), (N_PAIRS,), 0, N_VALUES)
        asked = jax.random.randint(popsim.key_stream(key, "asked"), (), 0, N_PAIRS)
        return self.trial_of(keys, values, asked)

    def validation_trials(self):
        keys = jax.random.split(jax.random.key(0), N_TESTED)
        return jax.vmap(lambda key: self.trial(batch=0, key=key))(keys)

    def trial_of(
        self, keys: Int[Array, " pair"], values: Int[Array, " pair"], asked: Int[Array, ""]
    ) -> popsim.Trial:
        """The trial with these pairs, of which the pair `asked` is asked for."""
        symbols = SYMBOL * jnp.eye(N_SYMBOLS)
        pairs, question = symbols[keys] + symbols[N_KEYS + values], symbols[keys[asked]][None]
        inputs = jnp.concatenate([pairs, question, jnp.zeros((N_ANSWERING, N_SYMBOLS))])
        n_steps = len(inputs)
        answers = jnp.broadcast_to(jax.nn.one_hot(values[asked], N_VALUES), (n_steps, N_VALUES))
        target = popsim.OutputTarget(answers, jnp.zeros(n_steps).at[-1].set(1.0))
        return popsim.Trial(
            (),
            {"symbols": inputs},
            target,
            popsim.Timeline(dt=DT, n_steps=n_steps),
            conditions={"asked": asked, "value": values[asked]},
        )


def error_without_keys() -> float:
    """The smallest error of an answer by the values alone: the most frequent of them, whatever the key.

    Counted over all that four values can be. Whoever forgets the values as well is wrong more often.
    """
    all_values = itertools.product(range(N_VALUES), repeat=N_PAIRS)
    most = [max(values.count(value) for value in values) for values in all_values]
    return 1 - sum(most) / len(most) / N_PAIRS


def error_without_one_pair() -> float:
    """The error of somebody who has lost one of the pairs, and draws a value when it is asked for."""
    return (1 - 1 / N_VALUES) / N_PAIRS


def build_ensemble(
    plasticity: popsim.networks.FastWeights | None, n_members: int, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """Untrained networks, whose parameters do not depend on the plasticity."""

    def build(key):
        network = popsim.networks.LeakyRNN(
            N_SYMBOLS, N_UNITS, N_VALUES, tau=DT, dt=DT, gain=0.9, plasticity=plasticity, key=key
        )
        return popsim.NetworkModel(network, dt=DT)

    return popsim.make_ensemble(build, n_members, key=key)


def train(
    untrained: popsim.NetworkModel, n_batches: int, key: Key[Array, ""]
) -> tuple[popsim.NetworkModel, Float[np.ndarray, "batch member"]]:
    """The trained ensemble, and its cross entropy in each batch."""
    trained, history = TaskTrainer(adam(cosine_decay(LEARNING_RATE, n_batches), clip_norm=CLIP_NORM))(
        Recall(),
        untrained,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )
    return trained, np.asarray(history.loss.total)


def with_fast_weights(ensemble: popsim.NetworkModel, factor: float) -> popsim.NetworkModel:
    """The same networks, whose fast weights grow at a factor of their rate."""
    return eqx.tree_at(
        lambda model: model.network.plasticity.rate, ensemble, replace_fn=lambda rate: factor * rate
    )


def recall(ensemble: popsim.NetworkModel, trials: popsim.Trial) -> Recalls:
    """What networks answer in trials, the same for all members."""
    output = popsim.evaluate_ensemble(
        ensemble, Recall(), trials=trials, key=jax.random.key(0)
    ).states.network.output
    answers, asked, values = jax.device_get(
        (output[:, :, -1].argmax(axis=-1), trials.conditions["asked"], trials.conditions["value"])
    )
    return Recalls(asked, answers != values)


def without_one_pair(trials: popsim.Trial, seed: int) -> Recalls:
    """What somebody answers who has lost the first pair, and draws a value when it is asked for."""
    asked, values = (np.asarray(trials.conditions[name]) for name in ("asked", "value"))
    drawn = np.random.default_rng(seed).integers(0, N_VALUES, len(values))
    return Recalls(asked, ((asked == 0) & (drawn != values))[None])


def error_rows(name: str, recalls: Recalls, largest: float) -> list[Row]:
    """The error of each member, beside the largest that passes."""
    return [
        upper_bound_row(name, str(i), error, largest) for i, error in enumerate(recalls.is_wrong.mean(axis=1))
    ]


def main() -> int:
    """Train networks of both kinds, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    key, trials = jax.random.key(options.seed), Recall().validation_trials()
    recalls, losses = {}, {}
    for name, kind in KINDS.items():
        began = time.perf_counter()
        untrained = build_ensemble(kind.plasticity, N_MEMBERS, popsim.key_stream(key, "networks"))
        trained, losses[name] = train(untrained, kind.n_batches, popsim.key_stream(key, "training"))
        recalls[name] = recall(trained, trials)
        if kind.plasticity is not None:
            recalls["weaker"] = recall(with_fast_weights(trained, WEAKER), trials)
            recalls["switched off"] = recall(with_fast_weights(trained, 0.0), trials)
        seconds = time.perf_counter() - began
        print(f"{name}: {N_MEMBERS} members, {kind.n_batches} batches, {seconds:.0f} s", flush=True)
    guess_error, gate = error_without_keys(), LARGEST_RATIO * error_without_one_pair()
    rows = error_rows("fast weights / one pair lost", recalls["fast weights"], gate)
    controls = error_rows("one pair lost", without_one_pair(trials, options.seed), gate)
    controls += error_rows("weaker / one pair lost", recalls["weaker"], gate)
    for name in ("plain", "switched off"):
        controls += error_rows(f"{name} / without keys", recalls[name], CONTROL_RATIO * guess_error)
    rows += negative_controls(controls)
    print_table(rows, "error", "bound")
    print(*draw_figure(options.out, losses, recalls, guess_error, gate), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
