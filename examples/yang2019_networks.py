"""Train a network on the twenty tasks of Yang et al. 2019, and store its weights for `yang2019.py`.

As in their code (gyyang/multitask): 256 leaky units with a time constant of 0.1 s, softplus or as a control
tanh, and noise; orthogonal initial weights; squared errors of sigmoid outputs; Adam; one rule a batch, and
the two decisions by context five times as often as other rules. Other than there, the leak acts on the
input of the nonlinearity and not on its output, batches have 32 trials and not 64, the norm of the gradient
is clipped and not each of its elements, and the learning rate begins at twice theirs and falls to zero.
Softplus networks have a second phase, in which the delayed decisions by context are as frequent as the
others. A training that was stopped goes on where it was.
"""

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import jax
from jaxtyping import Array, Key

import popsim
from command_line import OUT
from popsim.networks import LeakyRNN, draw_weights
from popsim.store import load_model, read_model_details, save_model
from popsim.tasks import RingTask, yang2019
from popsim.training import TaskTrainer, adam, cosine_decay

NONLINEARITIES = {"softplus": jax.nn.softplus, "tanh": jax.numpy.tanh}
GAINS = {"softplus": 0.5, "tanh": 1.0}  # of the orthogonal initial weights, as in their `network.py`
N_UNITS, TAU, NOISE = 256, 0.1, 0.05
BATCH_SIZE, CLIP_NORM = 32, 1.0
FOLDER = Path(__file__).parent / "weights"


@dataclasses.dataclass(frozen=True)
class Phase:
    """A part of a training.

    - `name`: of its random stream and its folder.
    - `n_batches`, `learning_rate`: the rate falls from this to zero.
    - `frequent`: the rules that are five times as frequent as others.
    """

    name: str
    n_batches: int
    learning_rate: float
    frequent: tuple[str, ...]

    def task(self) -> RingTask:
        """The twenty tasks, one rule a batch."""
        return yang2019(shares=dict.fromkeys(self.frequent, 5.0), one_rule_per_batch=True)


FIRST = ("context-dm-1", "context-dm-2")
LAST = (*FIRST, "context-delay-dm-1", "context-delay-dm-2")
PHASES = {
    "softplus": (Phase("training", 20_000, 2e-3, FIRST), Phase("phase 2", 8_000, 1e-3, LAST)),
    "tanh": (Phase("training", 12_000, 2e-3, FIRST),),
}


def build_ensemble(kind: str, seed: int) -> popsim.NetworkModel:
    """An ensemble of one untrained network of a kind, "softplus" or "tanh"."""
    task = yang2019()
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
        orthogonal = jax.nn.initializers.orthogonal(GAINS[kind])
        key = popsim.key_stream(key, "orthogonal")
        network = draw_weights(network, lambda network: network.recurrent_weights, orthogonal, key=key)
        return popsim.NetworkModel(network, dt=task.dt)

    return popsim.make_ensemble(build, 1, key=popsim.key_stream(jax.random.key(seed), "networks"))


def recipe(kind: str, seed: int) -> dict[str, Any]:
    """What weights were trained with, as it is stored with them."""
    return {
        "units": kind,
        "seed": seed,
        "tau": TAU,
        "noise": NOISE,
        "gain": GAINS[kind],
        "batch size": BATCH_SIZE,
        "clip norm": CLIP_NORM,
        "phases": [dataclasses.asdict(phase) | {"frequent": list(phase.frequent)} for phase in PHASES[kind]],
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
    """The trained ensemble; each phase of the training is kept in a folder."""
    ensemble, key = build_ensemble(kind, seed), jax.random.key(seed)
    for phase in PHASES[kind]:
        ensemble = train_phase(ensemble, phase, folder / phase.name, popsim.key_stream(key, phase.name))
    return ensemble


def train_phase(
    ensemble: popsim.NetworkModel, phase: Phase, folder: Path, key: Key[Array, ""]
) -> popsim.NetworkModel:
    """The ensemble after a phase."""
    task = phase.task()
    trainer = TaskTrainer(
        adam(cosine_decay(phase.learning_rate, phase.n_batches), clip_norm=CLIP_NORM),
        chkpt_dir=folder,
        validation_metrics=lambda states, trials: task.performance(states.network.output, trials),
    )
    return trainer(
        task,
        ensemble,
        phase.n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=500,
        restore_checkpoint=True,
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
