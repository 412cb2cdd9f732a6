"""How far each integration of each body is from the exact solution, and what a time step takes.

The hand's distance (mm) from the adaptive solution after 0.4 s of 10 ms steps, whose commands jump at random
at every step: excitations from zero to one, torques of up to 5 N m (the chain 2 N m), forces of up to 10 N.
Median and worst of the runs, in double precision. Times are those of a step of 64 trials in single precision,
on one core when the environment says so (`taskset -c 0`).
"""

import argparse
import functools
import time
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from popsim import muscles, plants

N_STEPS, DT, N_TRIALS = 40, 0.01, 64
CHAIN = (1.9, 1.2, 0.4), (0.31, 0.25, 0.18)  # kg and m of an upper arm, a forearm and a hand
BODIES: dict[str, tuple[Callable, float, float]] = {
    "point mass": (plants.PointMass, -10, 10),
    "two-link arm (arm26)": (plants.TwoLinkArm.arm26_skeleton, -5, 5),
    "two-link arm (Li & Todorov)": (plants.TwoLinkArm.li_todorov, -5, 5),
    "chain of three segments": (functools.partial(plants.NLinkArm, mass=CHAIN[0], length=CHAIN[1]), -2, 2),
    "muscled point mass, ReLU": (plants.muscled_point_mass, 0, 1),
    "arm26, ReLU": (lambda **how: plants.arm26(muscles.ReluMuscle, **how), 0, 1),
    "arm26, rigid Hill": (plants.arm26, 0, 1),
    "arm26, compliant Hill": (lambda **how: plants.arm26(muscles.CompliantTendonHillMuscle, **how), 0, 1),
    "arm26, Thelen": (lambda **how: plants.arm26(muscles.ThelenMuscle, **how), 0, 1),
    "arm26, MuJoCo-style": (lambda **how: plants.arm26(muscles.MujocoMuscle, **how), 0, 1),
    "arm26, Brown fast": (lambda **how: plants.arm26(muscles.BrownLoebMuscle.fast, **how), 0, 1),
    "Li & Todorov arm": (plants.li_todorov_arm, 0, 1),
}
SOLVERS = [
    (diffrax.Euler, 1),
    (diffrax.Euler, 4),
    (diffrax.Heun, 1),
    (diffrax.Heun, 2),
    (diffrax.Heun, 4),
    (diffrax.Bosh3, 1),
    (diffrax.Bosh3, 2),
    (diffrax.Tsit5, 1),
    (diffrax.Tsit5, 2),
]
STIFF = [(diffrax.Heun, 8), (diffrax.Heun, 16), (diffrax.Bosh3, 4), (diffrax.Bosh3, 8), (diffrax.Tsit5, 8)]
"""Further ones, for compliant tendons and light segments."""


@eqx.filter_jit
def end_points(plant, commands, simulate):
    return jax.lax.map(lambda command: simulate(plant, command, dt=DT).hand.position[-1], commands)


def milliseconds_a_step(plant, commands) -> float:
    """The quickest of some runs of a batch of trials."""
    run = eqx.filter_jit(
        lambda plant, commands: jax.vmap(
            lambda command: plants.simulate_plant(plant, command, dt=DT).hand.position[-1]
        )(commands)
    )
    run(plant, commands).block_until_ready()
    seconds = []
    for _ in range(10):
        began = time.perf_counter()
        run(plant, commands).block_until_ready()
        seconds.append(time.perf_counter() - began)
    return 1e3 * min(seconds) / N_STEPS


def main() -> None:
    """Measure, and print a row for each body and integration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--bodies", nargs="+", choices=BODIES, default=list(BODIES))
    arguments = parser.parse_args()
    print(f"{'body':30}{'solver':>8}{'substeps':>10}{'median mm':>11}{'worst mm':>10}{'ms a step':>11}")
    for name in arguments.bodies:
        build, low, high = BODIES[name]
        draws = np.random.default_rng(0).uniform(low, high, (arguments.runs, N_STEPS, build().n_commands))
        with jax.enable_x64(True):
            exact = end_points(build(), jnp.asarray(draws), plants.simulate_plant_adaptively)
        for solver, n_substeps in SOLVERS + (STIFF if name.startswith(("arm26, compliant", "chain")) else []):
            with jax.enable_x64(True):
                plant = build(solver=solver(), n_substeps=n_substeps)
                ends = end_points(plant, jnp.asarray(draws), plants.simulate_plant)
            missed = 1e3 * np.linalg.norm(np.asarray(ends - exact), axis=1)
            batch = jnp.asarray(np.resize(draws, (N_TRIALS, *draws.shape[1:])), jnp.float32)
            took = milliseconds_a_step(build(solver=solver(), n_substeps=n_substeps), batch)
            print(
                f"{name:30}{solver.__name__:>8}{n_substeps:10}{np.median(missed):11.3f}{np.max(missed):10.3f}"
                f"{took:11.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
