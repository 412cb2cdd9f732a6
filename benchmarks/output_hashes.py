"""What small runs of every part come to, as hashes: equal before and after a step that only moves code.

    python benchmarks/output_hashes.py --write FILE
    python benchmarks/output_hashes.py --compare FILE

Hashes are of the bits of weights, losses, records, metrics and the numbers in figures. They depend
on the machine and on the version of JAX: write the file with the commit before, and compare in the same
environment. Ends with 1, and names the parts, if a hash differs. Names of fields do not count; names of
stored arrays, settings and options do.
"""

import argparse
import contextlib
import hashlib
import json
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import small_environments
import small_training
from every_intervention import MODELS, N_STEPS, scheduled
from muscled_bodies import BODIES
from swept_runs import Swept

import popsim
from popsim.analysis import dynamics, neural_activity, similarity, statistics
from popsim.experiments import (
    EXPERIMENTS,
    CenterOut,
    Cognitive,
    Recording,
    RunStopped,
    resume_run,
    run_experiment,
)
from popsim.experiments.motor_experiment import PLANTS
from popsim.networks import NETWORKS
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_sweep
from popsim.tasks.library import TASKS
from popsim.training import (
    BinaryTournament,
    Curriculum,
    EarlyStopping,
    EvolutionStrategies,
    PopulationBasedTraining,
    ReduceOnPlateau,
    Resample,
    TaskTrainer,
    adam,
    constraints,
    open_history,
    rules,
    sgd,
)

KEY = jax.random.key(7)
SMALL: dict[str, Any] = {"n_members": 2, "n_units": 6, "batch_size": 4, "n_batches": 4, "log_step": 2}
PARTS: dict[str, Callable[[], Any]] = {}


def part(function: Callable[[], Any]) -> Callable[[], Any]:
    """Add a part, named by its function."""
    PARTS[function.__name__.replace("_", " ")] = function
    return function


def named_arrays(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray | str]]:
    """Yield the arrays and texts in results of any kind, by keys of mappings."""
    if isinstance(value, Mapping):
        for key in value:
            yield from named_arrays(value[key], f"{name}.{key}")
    elif hasattr(value, "data_vars"):  # an xarray.Dataset
        yield from named_arrays({str(key): value[key].values for key in value.variables}, name)
    else:
        for leaf in jax.tree.leaves(value):
            if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                leaf = jax.random.key_data(leaf)
            if isinstance(leaf, jax.Array | np.ndarray | np.generic | bool | int | float):
                yield name, np.asarray(leaf)
            elif isinstance(leaf, str):
                yield name, leaf


def hash_of(value: Any) -> str:
    """Return the hash of the arrays and texts in a result; their order in fields does not count."""
    contents = sorted(
        (
            name,
            getattr(content, "shape", ()),
            content.encode() if isinstance(content, str) else content.tobytes(),
        )
        for name, content in named_arrays(value)
        if np.size(content)
    )
    digest = hashlib.sha256()
    for name, shape, content in contents:
        digest.update(f"{name} {shape}".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def numbers_in(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers in figures: of their lines, points, areas and images."""
    numbers: dict[str, Any] = {}
    for name, figure in figures.items():
        for place, axes in enumerate(figure.figure.axes):
            numbers[f"{name} {place}"] = {
                "lines": [np.asarray(line.get_xydata(), float) for line in axes.get_lines()],
                "points": [np.asarray(of.get_offsets(), float) for of in axes.collections],
                "images": [np.asarray(image.get_array(), float) for image in axes.get_images()],
            }
    return numbers


def of_run(run: Any) -> dict[str, Any]:
    """Return what a finished run holds: weights, history, metrics, figures, states."""
    return {
        "weights": eqx.filter(run.ensemble, eqx.is_array),
        "history": {
            str(name): array.values
            for name, array in open_history(run.folder.path).variables.items()
            if array.dtype.kind in "fiub"
        },
        "summary": {name: value for name, value in run.summary.items() if name != "run_id"},
        "figures": numbers_in(run.experiment.draw_figures(run)),
        "states": eqx.filter(run.evaluate().states, eqx.is_array),
    }


def of_training(result: tuple[Any, Any]) -> dict[str, Any]:
    """Return what a training in memory came to."""
    model, history = result
    return {"weights": eqx.filter(model, eqx.is_array), "history": eqx.filter(history, eqx.is_array)}


def one_step(experiment: Any) -> dict[str, Any]:
    """Train the members of an experiment on one batch, in memory."""
    result = experiment.build_trainer()(
        experiment.build_task(),
        experiment.build_ensemble(),
        1,
        experiment.batch_size,
        experiment.where_train,
        ensembled=True,
        log_step=1,
        disable_tqdm=True,
        key=experiment.key("training"),
    )
    return of_training(result)


def trained_run(experiment: Any, **options: Any) -> dict[str, Any]:
    """Train an experiment, stop it, resume it, and return what it came to."""
    calls: list[int] = []

    def stop_later() -> bool:
        calls.append(0)
        return len(calls) > 1

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        with contextlib.suppress(RunStopped):
            run_experiment(experiment, path, quiet=True, stop=stop_later, **options)
        return of_run(resume_run(path, quiet=True))


@part
def center_out_with_muscles() -> Any:
    return trained_run(CenterOut(**SMALL))


@part
def center_out_with_a_mass_and_a_grid() -> Any:
    return trained_run(CenterOut(plant="point-mass", **SMALL), recording=Recording("logged", True))


@part
def cognitive() -> Any:
    return trained_run(Cognitive(**SMALL))


def add_steps(network: str) -> None:
    """Add a part: one training step of a network with each body, and without."""

    def steps() -> Any:
        without = one_step(Cognitive(network=network, **SMALL))
        bodies = {plant: one_step(CenterOut(plant=plant, network=network, **SMALL)) for plant in PLANTS}
        return {"no body": without, **bodies}

    PARTS[f"steps of {network}"] = steps


for _network in NETWORKS:
    add_steps(_network)


@part
def a_step_of_every_task() -> Any:
    return {name: one_step(EXPERIMENTS[name](**SMALL)) for name in TASKS}


@part
def an_environment() -> Any:
    loss = 1.0 * popsim.losses.PolicyGradient() + 0.5 * popsim.losses.ValueRegression()
    task = small_environments.CounterTask(loss + 0.01 * popsim.losses.Entropy())
    ensemble = popsim.make_ensemble(small_environments.build, 2, key=KEY)
    return of_training(small_training.train(4, task=task, ensemble=ensemble, log_step=2))


@part
def population_based_training() -> Any:
    optimizer = adam(popsim.PerMember(jnp.linspace(1e-3, 1e-2, 8)))
    updates = {
        "truncation": PopulationBasedTraining(2),
        "tournament": PopulationBasedTraining(2, BinaryTournament()),
        "resampled": PopulationBasedTraining(2, explore=Resample(popsim.distributions.Uniform(1e-3, 1e-2))),
    }
    options: dict[str, Any] = {"n_members": 8, "save_model_trainables": True}
    return {
        name: of_training(
            small_training.train(6, trainer=TaskTrainer(optimizer, population_updates=[update]), **options)
        )
        for name, update in updates.items()
    }


def error(states: Any, trials: Any) -> dict[str, Any]:
    """Return the squared error of each member."""
    return {"error": jnp.mean((states.network.output - trials.targets) ** 2, axis=(1, 2, 3))}


@part
def control() -> Any:
    updates = (
        Curriculum("task.scale", np.array([1.0, 1.5, 2.0]), "error", 2.0, mode="min"),
        ReduceOnPlateau("learning_rate", 0.5, 1, metric="error", minimum=0.1),
        EarlyStopping(2, metric="error"),
    )
    scaled = eqx.tree_at(
        lambda task: task.scale, small_training.RunningSum(), popsim.PerMember([9.0, 9.0, 9.0])
    )
    optimizer = adam(popsim.PerMember([1e-4, 1e-2, 3e-1]))
    trainer = TaskTrainer(optimizer, population_updates=updates, validation_metrics=error)
    options: dict[str, Any] = {"log_step": 2, "save_model_trainables": True}
    return of_training(small_training.train(16, n_members=3, task=scaled, trainer=trainer, **options))


@part
def a_sweep_that_selects() -> Any:
    experiment = Swept(n_batches=4, batch_size=2, log_step=2, select_every=2)
    sweep = Sweep(experiment, {"rate": (1e-3, 1e-2)}, range(2), 2, 2, Recording("logged"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep"
        make_sweep(sweep, path)
        run_sweep(path, quiet=True)
        opened = open_sweep(path)
        table = opened.summary()
        numbers = table.select_dtypes("number").drop(columns="seconds", errors="ignore")
        weights = opened.load("trainables.network.bias")["trainables.network.bias"].values
        return {"table": {name: numbers[name].to_numpy() for name in numbers}, "weights": weights}


@part
def learning_rules() -> Any:
    synapses = rules.recurrent_synapses()
    updates = {
        "hebb": rules.Hebb(synapses, 0.01),
        "oja": rules.Oja(synapses, 0.01),
        "bcm": rules.BCM(synapses, 0.01, time_constant=3.0),
        "node": rules.NodePerturbation(synapses, 0.01, std=0.05),
        "weight": rules.WeightPerturbation(rules.input_synapses(), 0.01, std=0.05),
        "reward": rules.RewardModulatedHebb(
            synapses, 0.01, baseline=rules.RunningBaseline(time_constant=3.0)
        ),
    }
    return {
        name: of_training(
            small_training.train(4, trainer=TaskTrainer(optax.set_to_zero(), model_update_funcs=(rule,)))
        )
        for name, rule in updates.items()
    }


@part
def constraints_on_weights() -> Any:
    def recurrent(model: Any) -> Any:
        return model.network.recurrent_weights

    limits = {
        "norm": constraints.MaxNorm(recurrent, 0.5),
        "unit": constraints.UnitNorm(recurrent),
        "spectrum": constraints.SpectralNorm(recurrent, 0.5),
        "range": constraints.Range(recurrent, -0.1, 0.1),
        "positive": constraints.NonNegativity(recurrent),
        "no loops": constraints.ZeroDiagonal(recurrent),
        "sparse": constraints.SparsityMask(recurrent, np.tri(5, dtype=bool)),
        "signs": constraints.DalesLaw(recurrent, constraints.dale_signs(5)),
    }
    return {
        name: of_training(
            small_training.train(2, trainer=TaskTrainer(adam(1e-2), post_step_fns=(constraint,)))
        )
        for name, constraint in limits.items()
    }


@part
def ways_to_compute_a_batch() -> Any:
    optimizers = {"sgd": sgd(1e-2), "lbfgs": optax.lbfgs(), "adamw": optax.adamw(1e-3)}
    options = {
        "minibatches": {"n_minibatches": 2},
        "remat": {"remat": True},
        "blocks": {"member_batch_size": 1},
    }
    trainers = {name: TaskTrainer(optimizer) for name, optimizer in optimizers.items()}
    trainers |= {name: TaskTrainer(adam(1e-2), **each) for name, each in options.items()}
    trainers["evolution"] = TaskTrainer(sgd(1e-2), gradient=EvolutionStrategies(6, std=0.1))
    ways = {name: of_training(small_training.train(4, trainer=trainer)) for name, trainer in trainers.items()}
    ways["one model"] = of_training(small_training.train(4, n_members=0))
    ways["no shared trials"] = of_training(small_training.train(4, ensemble_random_trials=True))
    return ways


@part
def trials_of_all_tasks() -> Any:
    keys = jax.random.split(KEY, 3)
    tasks = {name: make() if callable(make) else make for name, make in TASKS.items()}
    return {
        name: {
            "training": eqx.filter(
                jax.vmap(lambda key, task=task: task.trial(batch=3, key=key))(keys), eqx.is_array
            ),
            "validation": eqx.filter(task.validation_trials(), eqx.is_array),
        }
        for name, task in tasks.items()
    }


@part
def bodies() -> Any:
    results = {}
    for name, make in {
        **BODIES,
        "point mass": popsim.plants.PointMass,
        "arm": popsim.plants.TwoLinkArm.arm26_skeleton,
    }.items():
        plant = make()
        commands = jax.random.uniform(KEY, (20, plant.n_commands))
        results[name] = eqx.filter(popsim.plants.simulate_plant(plant, commands, dt=0.01), eqx.is_array)
    return results


@part
def interventions_and_noise() -> Any:
    results = {}
    for name, (build, of_model) in MODELS.items():
        acting = jnp.ones((len(of_model), N_STEPS), bool).at[:, : N_STEPS // 2].set(False)
        model, trial = build(tuple(of_model)), scheduled(of_model, acting)
        states = jax.jit(lambda key, model=model, trial=trial: popsim.simulate(model, trial, key=key))(KEY)
        results[name] = eqx.filter(states, eqx.is_array)
    return results


@part
def analyses() -> Any:
    rng = np.random.default_rng(0)
    activity = rng.normal(size=(2, 8, 30, 6)).cumsum(axis=2)
    side = np.repeat([0, 1], 4)
    ensemble = popsim.make_ensemble(small_training.build, 2, key=KEY)
    search = dynamics.find_fixed_points(ensemble, rng.normal(size=(2, 4, 5)))
    return {
        "components": tuple(neural_activity.principal_components(activity)),
        "rotations": tuple(neural_activity.rotations(activity, dt=0.01)),
        "decoding": neural_activity.decode_condition(activity, side, n_folds=4, key=KEY),
        "interval": tuple(statistics.mean_interval(activity[:, 0, -1])),
        "resampled": tuple(statistics.bootstrap_members(activity[:, 0, -1], key=KEY)),
        "similarity": similarity.linear_cka(activity[0], activity[1]),
        "fixed points": [search.fixed.select_member(member).state for member in range(2)],
    }


def main() -> None:
    """Compute the hashes, and write them or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("names", nargs="*", choices=[*PARTS, []])
    arguments = parser.parse_args()
    hashes = {name: hash_of(PARTS[name]()) for name in arguments.names or PARTS}
    circumstances = {
        "jax": jax.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    if arguments.write is not None:
        arguments.write.write_text(
            json.dumps({"circumstances": circumstances, "hashes": hashes}, indent=2) + "\n"
        )
    if arguments.compare is None:
        print(json.dumps(hashes, indent=2))
        return
    stored = json.loads(arguments.compare.read_text())
    if stored["circumstances"] != circumstances:
        sys.exit(
            f"hashes are compared in one environment, that of {stored['circumstances']}, got {circumstances}."
        )
    different = [name for name, each in hashes.items() if stored["hashes"].get(name) != each]
    print("\n".join(f"{name}: {'differs' if name in different else 'equal'}" for name in hashes))
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
