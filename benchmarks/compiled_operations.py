"""Count what XLA compiled for popsim's reference work, which does not depend on how busy a machine is.

For each loop over time, and for what is outside of them: `operations` that run one after the other at each
turn (fusions, products, copies, loops), and the operations `fused` into them, counted as often as they are
computed. XLA on a CPU copies producers into every consumer: far more fused operations than the mathematics
has is time lost at every turn.
"""

import argparse
import contextlib
import re
from typing import NamedTuple

import jax
import jax.numpy as jnp
from contestants.with_popsim import reference_work

from popsim.engine import plain_jax
from popsim.training import TaskTrainer, adam
from popsim.training.loop.batch_loop import CallPlan, _compiled_run
from popsim.training.loop.training_plan import plan_training
from popsim.training.options import Training

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


def compiled_training(work: argparse.Namespace) -> jax.stages.Compiled:
    """The optimized program of the training loop of a work."""
    task, model = reference_work(work)
    call = Training(
        task,
        model,
        2,
        work.trials,
        lambda model: model.network,
        ensembled=work.members > 1,
        disable_tqdm=True,
        key=jax.random.key(1),
    )
    plan = plan_training(TaskTrainer(adam(1e-2)), call)
    loop = plan.loops(None)[0]
    rows = jnp.full(loop.capacity, loop.n_kept)
    donated = (plan.state, CallPlan(jnp.asarray(2), rows, None))
    lowered = _compiled_run.lower(loop, donated)  # pyright: ignore[reportFunctionMemberAccess]
    return lowered.lowered.compile()


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


def main() -> None:
    """Print the counts of the reference work, or of one on arm26."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--body", choices=("point-mass", "arm26"), default="point-mass")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--plain-jax", action="store_true", help="without the engine of popsim")
    arguments = parser.parse_args()
    work = argparse.Namespace(**vars(arguments), trials=64, steps=100, units=50)
    with plain_jax() if arguments.plain_jax else contextlib.nullcontext():
        compiled = compiled_training(work)
    for name, count in counts(compiled)._asdict().items():
        print(f"{name:10}{count.operations:6} operations {count.fused:6} fused")
    print(f"{bytes_held(compiled, work):,.0f} bytes held per member, trial and time step")


if __name__ == "__main__":
    main()
