"""A force on a hand at rest moves it most across the forearm (Gordon, Ghilardi, Cooper & Ghez 1994).

1 N is put on the hands of popsim's arms in 24 directions, and the hand's acceleration in the first time step
is compared with `references/inertial_anisotropy.py`, which shares no code with popsim: for two torque arms,
for the same as chains whose mechanics are differentiated automatically, and for an arm with muscles, where
what the force adds is compared. The formula with the elbow's angle taken in space must not fit, nor a point
mass with the mean mobility. Prints the numbers, draws the figure, and exits with 1 when a
gate fails or a negative control passes.
"""

import sys
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from command_line import parse_options
from figures.inertial_anisotropy import draw_figure
from gates import Row, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from popsim import plants
from references import inertial_anisotropy as reference

SHOULDER, ELBOW = np.deg2rad(45.0), np.deg2rad(90.0)
DIRECTIONS = np.linspace(0, 2 * np.pi, 24, endpoint=False)
FORCES = np.stack([np.cos(DIRECTIONS), np.sin(DIRECTIONS)], axis=1)  # N
DT = 1e-4  # s
LARGEST_ERROR = 1e-4


def as_chain(arm: plants.TwoLinkArm) -> plants.NLinkArm:
    """The same arm as a chain of segments, without friction."""
    names = ("mass", "length", "center_of_mass", "inertia", "joint_limits")
    return plants.NLinkArm(**{name: getattr(arm, name) for name in names})


ARMS: dict[str, tuple[str, Callable[[], plants.AbstractPlant]]] = {
    "Li & Todorov": ("Li & Todorov", plants.TwoLinkArm.li_todorov),
    "Li & Todorov, chain": ("Li & Todorov", lambda: as_chain(plants.TwoLinkArm.li_todorov())),
    "Li & Todorov, muscles": ("Li & Todorov", plants.li_todorov_arm),
    "MotorNet": ("MotorNet", plants.TwoLinkArm.motornet),
    "MotorNet, chain": ("MotorNet", lambda: as_chain(plants.TwoLinkArm.motornet())),
}


def hand_position(plant: plants.AbstractPlant) -> Array:
    """Where the hand is (m) with the joints at `SHOULDER` and `ELBOW`; a point mass stays at its centre."""
    skeleton = plant.skeleton if isinstance(plant, plants.MusculoskeletalPlant) else plant
    if isinstance(skeleton, plants.AbstractArm):
        return skeleton.hand_position(jnp.array([SHOULDER, ELBOW]))
    return plant.workspace.center


def accelerations(plant: plants.AbstractPlant) -> Float[np.ndarray, "direction space"]:
    """What each force adds to the acceleration of the hand (m/s²) in the first time step."""
    start = plant.rest_state(hand_position(plant))
    commands = jnp.zeros((1, plant.n_commands))

    def velocity(force: Array) -> Array:
        course = plants.simulate_plant(plant, commands, initial_state=start, external_force=force, dt=DT)
        return course.hand.velocity[0]

    moved = jax.vmap(velocity)(jnp.asarray(FORCES)) - velocity(jnp.zeros(2))
    return np.asarray(moved) / DT


def rows_of(name: str, response: np.ndarray, mobility: np.ndarray) -> list[Row]:
    """How far accelerations are from the formula, their largest and smallest, and their main axis."""
    expected = FORCES @ mobility.T
    error = np.max(np.linalg.norm(response - expected, axis=1) / np.linalg.norm(expected, axis=1))
    fitted = np.linalg.lstsq(FORCES, response, rcond=None)[0].T
    small, large = np.linalg.eigvalsh((fitted + fitted.T) / 2)
    own_small, own_large = np.linalg.eigvalsh(mobility)
    axis = np.rad2deg(reference.main_axis((fitted + fitted.T) / 2))
    return [
        upper_bound_row(f"{name}, error", "worst", float(error), LARGEST_ERROR),
        tolerance_row(f"{name}, largest (1/kg)", "", float(large), float(own_large), LARGEST_ERROR),
        tolerance_row(f"{name}, smallest (1/kg)", "", float(small), float(own_small), LARGEST_ERROR),
        tolerance_row(f"{name}, main axis (deg)", "", axis, np.rad2deg(reference.main_axis(mobility)), 1e-4),
    ]


def limb_mobility(limb: str, elbow: float = ELBOW) -> np.ndarray:
    """The formula for a limb with the shoulder at `SHOULDER`."""
    return reference.mobility(reference.LIMBS[limb], SHOULDER, elbow)


def control_rows() -> list[Row]:
    """What must not pass as the arm of Li & Todorov."""
    arm, limb = plants.TwoLinkArm.li_todorov(), "Li & Todorov"
    mass = 1 / np.sqrt(np.prod(reference.EIGENVALUES[limb]))
    in_space = rows_of("elbow in space", accelerations(arm), limb_mobility(limb, ELBOW - SHOULDER))
    by_mass = rows_of("point mass", accelerations(plants.PointMass(mass)), limb_mobility(limb))
    return negative_controls([in_space[0], by_mass[0]])


def main() -> int:
    """Push all arms, print the table, draw the figure."""
    options = parse_options(__file__, __doc__ or "")
    rows, arms = [], {}
    with jax.enable_x64(True):
        for name, (limb, build) in ARMS.items():
            arms[name] = (accelerations(build()), limb_mobility(limb))
            rows += rows_of(name, *arms[name])
        rows += control_rows()
    for limb, by_hand in reference.EIGENVALUES.items():
        for eigenvalue, reference_value in zip(
            np.linalg.eigvalsh(limb_mobility(limb))[::-1], by_hand, strict=True
        ):
            rows.append(tolerance_row(f"{limb}, formula (1/kg)", "", eigenvalue, reference_value, 1e-3))
    print_table(rows, "found", "reference")
    print(*draw_figure(options.out, FORCES, arms, SHOULDER, ELBOW), sep="\n")
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main())
