"""Train a network on the twenty tasks of Yang et al. 2019, and store its weights for `yang2019.py`.

As in the main training of their code (gyyang/multitask): 256 leaky units with a time constant of 0.1 s,
softplus or as a control tanh, and noise; recurrent weights that begin as a multiple of the identity for
softplus units, and of an orthogonal matrix for tanh; squared errors of sigmoid outputs; Adam with batches of
64 trials; and the two decisions by context five times as often as other rules.

Unlike there, each trial of a batch draws its rule, and a first phase has the two decisions by context
alone. With one rule a batch, or without the first phase, networks had not learned which ring counts after
as many trials. The leak acts on the input of the nonlinearity and not on its output, the delayed decisions by
context are three times as frequent, the norm of the gradient is clipped and not each of its elements, and the
learning rate, for softplus units twice theirs, falls to zero in the second phase. A second phase that was
stopped goes on where it was; the first starts over.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key

import popsim
from command_line import OUT
from popsim.networks import LeakyRNN, draw_weights, identity_weights
from popsim.store import load_model, read_model_details, save_model
from popsim.tasks import RingTask, yang2019
from popsim.training import TaskTrainer, adam, cosine_decay

NONLINEARITIES = {"softplus": jax.nn.softplus, "tanh": jax.numpy.tanh}
INITIAL = {"softplus": identity_weights(0.5), "tanh": jax.nn.initializers.orthogonal(1.0)}
"""Of the recurrent weights, with the gains of their `network.py`."""
N_UNITS, TAU, NOISE = 256, 0.1, 0.05
BATCH_SIZE, CLIP_NORM = 64, 1.0
CONTEXTS = ("context-dm-1", "context-dm-2")
SHARES = {**dict.fromkeys(CONTEXTS, 5.0), "context-delay-dm-1": 3.0, "context-delay-dm-2": 3.0}
LEARNING_RATES = {"softplus": 2e-3, "tanh": 1e-3}
N_BATCHES = {"softplus": (4_000, 11_000), "tanh": (1_500, 5_500)}  # of the two phases
FOLDER = Path(__file__).parent / "weights"


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
        key = popsim.key_stream(key, "orthogonal")
        network = draw_weights(network, lambda network: network.recurrent_weights, INITIAL[kind], key=key)
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
        "learning rate": LEARNING_RATES[kind],
        "batches": list(N_BATCHES[kind]),
        "shares": SHARES,
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
    rate, key = LEARNING_RATES[kind], jax.random.key(seed)
    first, second = N_BATCHES[kind]
    few = build_ensemble(kind, seed, CONTEXTS)
    few = train_phase(few, yang2019(CONTEXTS), first, rate, None, popsim.key_stream(key, "contexts"))
    ensemble = with_rules(few, build_ensemble(kind, seed))
    schedule = cosine_decay(rate, second)
    return train_phase(
        ensemble, yang2019(shares=SHARES), second, schedule, folder, popsim.key_stream(key, "training")
    )


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
    learning_rate: Any,
    folder: Path | None,
    key: Key[Array, ""],
) -> popsim.NetworkModel:
    """The ensemble after a phase, which a folder keeps if it is given."""
    trainer = TaskTrainer(
        adam(learning_rate, clip_norm=CLIP_NORM),
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
