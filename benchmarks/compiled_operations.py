"""Count what XLA compiled for popsim's reference work, which does not depend on how busy a machine is.

For each loop over time, and for what is outside of them: `operations` that run one after the other at each
turn (fusions, products, copies, loops), and the operations `fused` into them, counted as often as they are
computed. XLA on a CPU copies producers into every consumer: far more fused operations than the mathematics
has is time lost at every turn.

    python benchmarks/compiled_operations.py [--body arm26] [--members 16] [--plain-jax]
    python benchmarks/compiled_operations.py --networks gru lstm

The second form counts networks without a body, as in `network_cost.py`, beside a plain JAX scan of the same
steps. With `--h100` each program is compiled for a GPU, of which none is needed, see `h100.py`. There an
operation is a kernel, which takes some microseconds however small it is.
"""

import argparse
import contextlib
import re
import warnings
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import network_cost
from contestants.with_popsim import reference_work
from h100 import compile_for_h100

from popsim.engine import plain_jax
from popsim.training import TaskTrainer, adam
from popsim.training.loop.batch_loop import BatchLoop, CallPlan, _compiled_run
from popsim.training.loop.training_plan import plan_training
from popsim.training.options import Training
from popsim.training.steps.train_state import TrainState

NOT_WORK = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast"}
COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .*\{$")
OPERATION = re.compile(r"^(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([a-z\-]+)\(")


class Count(NamedTuple):
    """Operations that run one after the other, and those fused into them."""

    operations: int
    fused: int


class Counts(NamedTuple):
    """Of a step of time forward and backward, and of a batch outside of both."""

    forward: Count
    backward: Count
    outside: Count


def reference_training(work: argparse.Namespace) -> Training:
    """The training of a work."""
    task, model = reference_work(work)
    return Training(
        task,
        model,
        2,
        work.trials,
        lambda model: model.network,
        ensembled=work.members > 1,
        disable_tqdm=True,
        key=jax.random.key(1),
    )


def network_training(name: str, n_members: int) -> Training:
    """The training of a network without a body, as in network_cost.py."""
    return Training(
        network_cost.Noise(),
        network_cost.build_ensemble(name, n_members),
        2,
        network_cost.N_TRIALS,
        lambda model: model.network,
        ensembled=True,
        disable_tqdm=True,
        key=network_cost.KEY,
    )


def loop_of(training: Training) -> tuple[BatchLoop, tuple[TrainState, CallPlan]]:
    """The arguments of the compiled training loop."""
    plan = plan_training(TaskTrainer(adam(1e-2)), training)
    loop = plan.loops(None)[0]
    rows = jnp.full(loop.capacity, loop.n_kept)
    return loop, (plan.state, CallPlan(jnp.asarray(2), rows, None))


def compiled_training(training: Training, *, for_h100: bool = False) -> jax.stages.Compiled:
    """The optimized program of the training loop, for this machine or for an H100."""
    arguments = loop_of(training)
    if for_h100:
        run = _compiled_run.__wrapped__  # pyright: ignore[reportFunctionMemberAccess]
        return compile_for_h100(run, *arguments)
    with warnings.catch_warnings():  # as in a training
        warnings.filterwarnings("ignore", message="Some donated buffers were not usable*")
        lowered = _compiled_run.lower(*arguments)  # pyright: ignore[reportFunctionMemberAccess]
        return lowered.lowered.compile()


def compiled_plain(name: str, n_members: int, *, for_h100: bool = False) -> jax.stages.Compiled:
    """The optimized program that trains a network with plain JAX."""
    train, arguments = network_cost.plain_training(network_cost.build_ensemble(name, n_members), 2)
    if for_h100:
        return compile_for_h100(train, *arguments)
    jitted: Any = eqx.filter_jit(train)
    return jitted.lower(*arguments).lowered.compile()


def bytes_held(compiled: jax.stages.Compiled, work: argparse.Namespace) -> float:
    """The bytes of temporary memory per member, trial and time step."""
    analysis = compiled.memory_analysis()
    assert analysis is not None, "this device does not report memory"
    return analysis.temp_size_in_bytes / (work.members * work.trials * work.steps)


def counts(compiled: jax.stages.Compiled) -> Counts:
    """Count the operations of a compiled training."""
    text = compiled.as_text() or ""
    computations = _computations(text)
    bodies = {name: computations[name] for name in re.findall(r"body=%?([\w.\-]+)", text)}
    batch = max(bodies, key=lambda name: len(_work(bodies[name])))
    inner = [match for line in bodies[batch] for match in re.findall(r"body=%?([\w.\-]+)", line)]
    over_time = [name for name in inner if _multiplies(name, computations)]
    if len(over_time) != 2:
        raise ValueError(f"two loops over time were expected, got {len(over_time)}.")
    forward, backward = (_count(bodies[name], computations) for name in over_time)
    return Counts(forward, backward, _count(bodies[batch], computations))


def _computations(text: str) -> dict[str, list[str]]:
    """The lines of each computation of a program."""
    computations, current = {}, None
    for line in text.splitlines():
        start = COMPUTATION.match(line)
        if start:
            current = computations[start.group(1)] = []
        elif line.startswith("}"):
            current = None
        elif current is not None and " = " in line:
            current.append(line.strip())
    return computations


def _kind(line: str) -> str:
    match = OPERATION.match(line)
    return match.group(1) if match else "?"


def _work(lines: list[str]) -> list[str]:
    return [line for line in lines if _kind(line) not in NOT_WORK]


def _callee(line: str) -> str:
    match = re.search(r"calls=%?([\w.\-]+)", line)
    return match.group(1) if match else ""


def _multiplies(name: str, computations: dict[str, list[str]]) -> bool:
    """Whether a computation, or one fused into it, has a matrix product."""
    lines = computations.get(name, [])
    return any(
        _kind(line) in ("dot", "custom-call") or _multiplies(_callee(line), computations) for line in lines
    )


def _count(lines: list[str], computations: dict[str, list[str]]) -> Count:
    work = _work(lines)
    return Count(len(work), sum(len(_work(computations.get(_callee(line), []))) for line in work))


def print_reference(arguments: argparse.Namespace) -> None:
    """Print the counts of the reference work, or of one on arm26."""
    work = argparse.Namespace(**vars(arguments), trials=64, steps=100, units=50)
    with plain_jax() if arguments.plain_jax else contextlib.nullcontext():
        compiled = compiled_training(reference_training(work), for_h100=arguments.h100)
    for name, count in counts(compiled)._asdict().items():
        print(f"{name:10}{count.operations:6} operations {count.fused:6} fused")
    print(f"{bytes_held(compiled, work):,.0f} bytes held per member, trial and time step")


def print_networks(arguments: argparse.Namespace) -> None:
    """Print the operations of a time step of each network, forward and backward, beside plain JAX."""
    print(f"{'operations':14}{'popsim':>12}{'plain JAX':>12}")
    for name in arguments.networks:
        training = network_training(name, arguments.members)
        programs = (
            compiled_training(training, for_h100=arguments.h100),
            compiled_plain(name, arguments.members, for_h100=arguments.h100),
        )
        steps = [counts(program)[:2] for program in programs]
        texts = [f"{forward.operations} + {backward.operations}" for forward, backward in steps]
        print(f"{name:14}{texts[0]:>12}{texts[1]:>12}", flush=True)


def main() -> None:
    """Print the counts of the reference work, or of networks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--body", choices=("point-mass", "arm26"), default="point-mass")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--plain-jax", action="store_true", help="without the engine of popsim")
    parser.add_argument("--networks", nargs="+", choices=network_cost.ALL_NETWORKS, help="without a body")
    parser.add_argument("--h100", action="store_true", help="compile for an H100")
    arguments = parser.parse_args()
    (print_networks if arguments.networks else print_reference)(arguments)


if __name__ == "__main__":
    main()
