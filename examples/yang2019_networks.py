"""Train a network on the twenty tasks of Yang et al. 2019, and store its weights for `yang2019.py`.

As in the main training of their code (gyyang/multitask): 256 leaky units with a time constant of 0.1 s,
softplus or as a control tanh, and noise; recurrent weights that begin as half of the identity (there for
softplus units only); squared errors of sigmoid outputs; Adam with batches of 64 trials; and the two decisions
by context five times as often as other rules.

Unlike there, each trial of a batch draws its rule, and a first phase has the two decisions by context
alone. With one rule a batch, or without the first phase, networks had not learned which ring counts after
as many trials. The leak acts on the input of the nonlinearity and not on its output, the delayed decisions by
context are three times as frequent, the norm of the gradient is clipped and not each of its elements, and the
learning rate falls to zero in the second phase.

For softplus units the learning rate begins at twice theirs; in the second phase weights decay, and activity
has a small cost. Without the decay, networks of two seeds did not do a rule by the sum of three others
(`docs/paper_figures.md` has the numbers). For tanh units the rate falls in the first phase, too, and the
weights of rule inputs begin four times as large: without both they did not learn which ring counts. A second
phase that was stopped goes on where it was; the first starts over.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Key

import popsim
from command_line import OUT
from popsim.losses import HiddenActivity
from popsim.networks import LeakyRNN, draw_weights, identity_weights
from popsim.store import load_model, read_model_details, save_model
from popsim.tasks import RingTask, yang2019
from popsim.training import TaskTrainer, adam, cosine_decay

NONLINEARITIES = {"softplus": jax.nn.softplus, "tanh": jnp.tanh}
N_UNITS, TAU, NOISE = 256, 0.1, 0.05
DIAGONAL = 0.5  # of the initial recurrent weights
BATCH_SIZE, CLIP_NORM = 64, 1.0
CONTEXTS = ("context-dm-1", "context-dm-2")
SHARES = {**dict.fromkeys(CONTEXTS, 5.0), "context-delay-dm-1": 3.0, "context-delay-dm-2": 3.0}
FOLDER = Path(__file__).parent / "weights"


@dataclasses.dataclass(frozen=True)
class Training:
    """What differs between the two kinds of units.

    - `rule_gain`: by how much the initial weights of rule inputs are larger than those of others.
    - `learning_rate`: that of the first batch.
    - `decays_in_first`: whether it falls to zero in the first phase, too.
    - `weight_decay`: of all parameters in the second phase, as in `optax.adamw`.
    - `activity_cost`: the weight of `HiddenActivity` in the loss of the second phase.
    - `n_first`, `n_second`: the numbers of batches of the two phases.
    """

    rule_gain: float
    learning_rate: float
    decays_in_first: bool
    weight_decay: float
    activity_cost: float
    n_first: int
    n_second: int


TRAINING = {
    "softplus": Training(
        rule_gain=1.0,
        learning_rate=2e-3,
        decays_in_first=False,
        weight_decay=0.1,
        activity_cost=1e-9,
        n_first=4_000,
        n_second=11_000,
    ),
    "tanh": Training(
        rule_gain=4.0,
        learning_rate=1e-3,
        decays_in_first=True,
        weight_decay=0.0,
        activity_cost=0.0,
        n_first=4_000,
        n_second=16_000,
    ),
}


def build_ensemble(kind: str, seed: int, rules: tuple[str, ...] | None = None) -> popsim.NetworkModel:
    """An ensemble of one untrained network of a kind, "softplus" or "tanh", for some rules or all."""
    task = yang2019(rules)
    n_inputs = popsim.n_network_inputs(task.validation_trials())

    def build(key):
        network = LeakyRNN(
            n_inputs,
            N_UNITS,
            1 + task.code.n_units,
            tau=TAU,
            dt=task.dt,
            nonlinearity=NONLINEARITIES[kind],
            noise_std=NOISE,
            output_fn=jax.nn.sigmoid,
            key=key,
        )
        is_rule = np.arange(n_inputs) >= n_inputs - len(task.names)
        gain = jnp.where(is_rule, TRAINING[kind].rule_gain, 1.0)
        network = eqx.tree_at(lambda net: net.input_weights, network, gain * network.input_weights)
        diagonal = identity_weights(DIAGONAL)
        network = draw_weights(network, lambda net: net.recurrent_weights, diagonal, key=key)
        return popsim.NetworkModel(network, dt=task.dt)

    return popsim.make_ensemble(build, 1, key=popsim.key_stream(jax.random.key(seed), "networks"))


def recipe(kind: str, seed: int) -> dict[str, Any]:
    """What weights were trained with, as it is stored with them."""
    return {
        "units": kind,
        "seed": seed,
        "tau": TAU,
        "noise": NOISE,
        "batch size": BATCH_SIZE,
        "clip norm": CLIP_NORM,
        "diagonal": DIAGONAL,
        "shares": SHARES,
        **dataclasses.asdict(TRAINING[kind]),
    }


def weights_file(kind: str, seed: int) -> Path:
    """Where the weights of a trained network are."""
    return FOLDER / f"yang2019_{kind}_{seed}.safetensors"


def has_weights(seed: int) -> bool:
    """Whether there are weights of both kinds."""
    return all(weights_file(kind, seed).exists() for kind in NONLINEARITIES)


def load_trained(kind: str, seed: int) -> popsim.NetworkModel:
    """The stored ensemble of one trained network; `ValueError` if another recipe is stored with it."""
    path = weights_file(kind, seed)
    if (stored := read_model_details(path)) != recipe(kind, seed):
        raise ValueError(f"{path} was trained by another recipe, {stored}: run {Path(__file__).name} again.")
    return load_model(path, build_ensemble(kind, seed))


def train(kind: str, seed: int, folder: Path) -> popsim.NetworkModel:
    """The trained ensemble. The second phase is kept in a folder."""
    of_kind, key = TRAINING[kind], jax.random.key(seed)
    rate, first, second = of_kind.learning_rate, of_kind.n_first, of_kind.n_second
    few, task = build_ensemble(kind, seed, CONTEXTS), yang2019(CONTEXTS)
    optimizer = adam(cosine_decay(rate, first) if of_kind.decays_in_first else rate, clip_norm=CLIP_NORM)
    few = train_phase(few, task, first, optimizer, None, popsim.key_stream(key, "contexts"))

    ensemble, task = with_rules(few, build_ensemble(kind, seed)), yang2019(shares=SHARES)
    loss = task.loss + of_kind.activity_cost * HiddenActivity()
    task = eqx.tree_at(lambda task: task.loss, task, loss)
    optimizer = optax.chain(
        optax.clip_by_global_norm(CLIP_NORM),
        optax.adamw(cosine_decay(rate, second), weight_decay=of_kind.weight_decay),
    )
    return train_phase(ensemble, task, second, optimizer, folder, popsim.key_stream(key, "training"))


def with_rules(few: popsim.NetworkModel, ensemble: popsim.NetworkModel) -> popsim.NetworkModel:
    """The ensemble of networks for all rules, with the weights of those for the decisions by context."""

    def shared(model):
        return model.network.recurrent_weights, model.network.bias, model.network.readout

    def inputs(model):
        return model.network.input_weights

    names, n_others = yang2019().names, inputs(few).shape[-1] - len(CONTEXTS)
    columns = np.array([*range(n_others), *(n_others + names.index(rule) for rule in CONTEXTS)])
    trained = inputs(ensemble).at[..., columns].set(inputs(few))
    return eqx.tree_at(inputs, eqx.tree_at(shared, ensemble, shared(few)), trained)


def train_phase(
    ensemble: popsim.NetworkModel,
    task: RingTask,
    n_batches: int,
    optimizer: optax.GradientTransformation,
    folder: Path | None,
    key: Key[Array, ""],
) -> popsim.NetworkModel:
    """The ensemble after a phase, which a folder keeps if it is given."""
    trainer = TaskTrainer(
        optimizer,
        chkpt_dir=folder,
        validation_metrics=lambda states, trials: task.performance(states.network.output, trials),
    )
    return trainer(
        task,
        ensemble,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=500,
        restore_checkpoint=folder is not None,
        disable_tqdm=not sys.stderr.isatty(),
        key=key,
    )[0]


def main() -> None:
    """Train one network and store it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=NONLINEARITIES, default="softplus", help="of units")
    parser.add_argument("--seed", type=int, default=0, help="of weights, trials and noise")
    options = parser.parse_args()
    trained = train(options.kind, options.seed, OUT / "yang2019" / f"{options.kind}-{options.seed}")
    FOLDER.mkdir(exist_ok=True)
    path = weights_file(options.kind, options.seed)
    save_model(path, trained, details=recipe(options.kind, options.seed), overwrite=True)
    print(path)


if __name__ == "__main__":
    main()
