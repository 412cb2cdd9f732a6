"""Reaches in a curl field: exposure, adaptation, after-effects (after Shadmehr & Mussa-Ivaldi 1994).

Networks learn to move a point mass under white force noise; then a field F = b (v_y, -v_x) is on, and they
learn on. What they do before and after, and when the field is suddenly off, is compared with the optimal
controllers of the plant without and with the field (`references/force_field.py`, which shares no code with
popsim): a network that has adapted does not straighten its path but curves it to the other side, as the
optimum does (Izawa et al. 2008). Networks that learn on without the field, or in that of the other sign, must
not pass. The histories are saved and analysed in a fresh process, which draws the figure and exits with 1
when a gate fails or a negative control passes.
"""

import argparse
import dataclasses
import shutil
import sys
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import popsim
from command_line import parse_options, run_on_saved
from figures.force_field import Course, draw_figure
from gates import Row, cost_rows, exit_code, negative_controls, print_table, tolerance_row, upper_bound_row
from lqr_reaching import BATCH_SIZE, N_MEMBERS, build_ensemble, build_task
from popsim.analysis.behaviour import maximum_perpendicular_deviation
from popsim.experiments import RunHistory
from popsim.training import TaskTrainer, adam, open_history, save_history
from references import force_field as reference
from references.lqr import Reach, optimal_cost

REACH = Reach()
FORCE_NOISE = 0.5  # N at each step
INITIAL_RATE, ADAPTATION_RATE = 3e-3, 2e-3
N_BATCHES, QUICK_BATCHES = (2000, 500), (1000, 300)  # at first, and in a field
KEPT_EVERY, SMOOTHED_OVER = 4, 20  # batches
TOLERANCES = {"naive": 0.3, "adapted": 0.1, "after-effect": 0.25}  # of the deviation in each phase
HIGHEST_COST = 1.03  # relative to the optimum


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """In which field (N s/m) networks learn on, and in which they are tested."""

    trained_in: float
    tested_in: float
    must_fail: bool = False


ADAPTATIONS = {
    "b=3": Adaptation(3.0, 3.0),
    "b=5": Adaptation(5.0, 5.0),
    "field off": Adaptation(0.0, 3.0, must_fail=True),
    "wrong sign": Adaptation(-3.0, 3.0, must_fail=True),
}


def build_untrained(seed: int) -> popsim.SensorimotorLoop:
    """The networks of `lqr_reaching.py`, whose trials may schedule a field and force noise."""
    ensemble = build_ensemble(REACH, popsim.key_stream(jax.random.key(seed), "networks"))
    return dataclasses.replace(
        ensemble, interventions=(popsim.interventions.CurlField(), popsim.interventions.ForceNoise())
    )


def train(
    options: argparse.Namespace,
    name: str,
    ensemble: popsim.SensorimotorLoop,
    optimizer: optax.GradientTransformation,
    strength: float,
    saved_batches: np.ndarray,
) -> popsim.SensorimotorLoop:
    """Train all members in a field (N s/m), and save the history with the weights after some batches.

    J is given in cm²: in m² no gradient is as large as the clip norm.
    """
    n_batches = int(saved_batches[-1]) + 1
    scheduled = {"curl field": strength, "force noise": FORCE_NOISE}
    plans = [popsim.interventions.InterventionPlan(name, parameter) for name, parameter in scheduled.items()]
    trained, history = TaskTrainer(optimizer)(
        popsim.tasks.WithInterventions(build_task(REACH, weight=1e4), plans),
        ensemble,
        n_batches,
        BATCH_SIZE,
        where_train=lambda model: model.network,
        ensembled=True,
        log_step=n_batches,
        save_model_trainables=saved_batches,
        disable_tqdm=not sys.stderr.isatty(),
        key=popsim.key_stream(jax.random.key(options.seed), name),
    )
    shutil.rmtree(options.out / name, ignore_errors=True)
    save_history(options.out / name, history, untrained=ensemble)
    return trained


def train_all(options: argparse.Namespace) -> None:
    """Train without a field and, from there, in each of the fields."""
    n_initial, n_adaptation = QUICK_BATCHES if options.quick else N_BATCHES
    optimizer = adam(optax.cosine_decay_schedule(INITIAL_RATE, n_initial), clip_norm=1.0)
    last, saved_batches = np.array([n_initial - 1]), np.arange(KEPT_EVERY - 1, n_adaptation, KEPT_EVERY)
    trained = train(options, "initial", build_untrained(options.seed), optimizer, 0.0, last)
    for name, adaptation in selected_adaptations(options).items():
        rate = optax.cosine_decay_schedule(ADAPTATION_RATE, n_adaptation, alpha=0.1)
        optimizer = adam(rate, clip_norm=1.0)
        rows = saved_batches[-1:] if adaptation.must_fail else saved_batches
        train(options, name, trained, optimizer, adaptation.trained_in, rows)


def selected_adaptations(options: argparse.Namespace) -> dict[str, Adaptation]:
    """All adaptations, or those of the short form."""
    names = ("b=3", "field off") if options.quick else ADAPTATIONS
    return {name: ADAPTATIONS[name] for name in names}


def saved_ensemble(options: argparse.Namespace, name: str) -> tuple[np.ndarray, popsim.SensorimotorLoop]:
    """After how many batches weights were saved, and all members after these as one ensemble, in order."""
    template, saved = build_untrained(options.seed), open_history(options.out / name)
    n_batches = saved.trainables_batch.values + 1

    def all_rows(leaf):
        return jnp.asarray(leaf.values).reshape(-1, *leaf.shape[2:])

    def repeated(leaf):
        return jnp.tile(leaf, (n_batches.size, *[1] * (leaf.ndim - 1))) if eqx.is_array(leaf) else leaf

    trained = jax.tree.map(all_rows, RunHistory(saved, template).trainables)
    return n_batches, eqx.combine(trained, jax.tree.map(repeated, template))


def evaluate(
    ensemble: popsim.SensorimotorLoop, strength: float | None, *, active: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Reaches without noise, in double precision, in trials with a field of `strength` (N s/m), unless it is
    None, `active` or not: hand positions [member, trial, time, 2] (m), and costs J [member, trial] (m²)."""
    with jax.enable_x64(True):
        task = build_task(REACH)
        trials = task.validation_trials()
        if strength is not None:
            trials = popsim.interventions.schedule_intervention(trials, "curl field", strength, active)
        double = jax.tree.map(lambda x: x.astype(float) if eqx.is_inexact_array(x) else x, ensemble)
        tested = popsim.evaluate_ensemble(double, task, trials=trials, key=jax.random.key(0))
        return np.asarray(tested.states.hand.position), np.asarray(tested.losses.total)


def read_course(options: argparse.Namespace, name: str) -> Course:
    """Reaches with and without the field, by the weights of each row of a saved history."""
    strength = ADAPTATIONS[name].tested_in
    n_batches, ensemble = saved_ensemble(options, name)
    (in_field, costs), (caught, _) = evaluate(ensemble, strength), evaluate(ensemble, None)

    def by_row(values):
        return values.reshape(n_batches.size, -1, *values.shape[1:])

    optimal = reference.phase_paths(REACH, targets(), strength)
    _, optimum = reference.controlled_reach(REACH, targets()[0], field=strength, expected=strength)
    return Course(n_batches, by_row(in_field), by_row(caught), by_row(costs), optimal, optimum)


def targets() -> np.ndarray:
    """The eight targets [trial, 2] (m)."""
    return np.asarray(build_task(REACH).validation_trials().targets.position[:, -1])


def signed_deviation(paths: np.ndarray) -> np.ndarray:
    """The largest distance (m) of paths [..., trial, time, 2] (m) from the straight line, left positive."""
    return maximum_perpendicular_deviation(paths, np.zeros((len(targets()), 2)), targets())


def deviations(paths: np.ndarray) -> np.ndarray:
    """The mean over targets of the largest signed distance (cm) of paths [..., trial, time, 2] (m)."""
    return 100 * signed_deviation(paths).mean(axis=-1)


def phase_rows(name: str, course: Course) -> list[Row]:
    """The deviation of each member in each phase beside that of the optimal controllers."""
    positions = {
        "naive": course.in_field[0],
        "adapted": course.in_field[-1],
        "after-effect": course.caught[-1],
    }
    rows = []
    for phase, tolerance in TOLERANCES.items():
        expected = float(deviations(course.optimal[phase]))
        for member, deviation in enumerate(deviations(positions[phase])):
            rows.append(tolerance_row(f"{name}, {phase} (cm)", str(member), deviation, expected, tolerance))
    return rows


def mirror_rows(name: str, course: Course) -> list[Row]:
    """In how many directions a catch trial deviates to the other side than the first reach in the field."""
    first, last = (signed_deviation(paths) for paths in (course.in_field[0], course.caught[-1]))
    opposite = np.sum(first * last < 0, axis=-1)
    condition = f"{name}, opposite directions"
    return [Row(condition, str(i), n, first.shape[-1], gate=(1, 1)) for i, n in enumerate(opposite)]


def learning_rows(name: str, in_field: np.ndarray, course: Course) -> list[Row]:
    """How far the error of reaches [row, member, trial, time, 2] ever rises again, relative to the largest.

    The error is the difference in deviation to the optimum, averaged over `SMOOTHED_OVER` batches; what
    steady training noise leaves at the end may move it by 5% of the error that there was to learn.
    """
    errors = np.abs(deviations(in_field) - deviations(course.optimal["adapted"]))
    n = SMOOTHED_OVER // KEPT_EVERY
    rows = []
    for member, member_errors in enumerate(errors.T):
        smooth = np.convolve(member_errors, np.full(n, 1 / n), mode="valid")
        rise = np.max(smooth - np.minimum.accumulate(smooth)) / member_errors.max()
        rows.append(upper_bound_row(f"{name}, error rises", str(member), float(rise), 0.05))
    return rows


def adaptation_rows(name: str, course: Course) -> list[Row]:
    """All about one adaptation; what does not depend on how it was trained is not asked of a control."""
    rows = cost_rows(f"{name}, J (m²)", course.costs[-1], course.optimum, HIGHEST_COST, gate_members=True)
    rows += phase_rows(name, course)
    if not ADAPTATIONS[name].must_fail:
        return rows + mirror_rows(name, course) + learning_rows(name, course.in_field, course)
    return negative_controls([row for row in rows if "naive" not in row.condition])


def initial_rows(options: argparse.Namespace) -> list[Row]:
    """Before any field: near the optimum, as untrained networks are not; a field that is off does nothing."""
    _, both = saved_ensemble(options, "initial")
    trained = jax.tree.map(lambda leaf: leaf[N_MEMBERS:] if eqx.is_array(leaf) else leaf, both)
    costs, optimum = evaluate(both, None)[1], optimal_cost(REACH, targets()[0])
    gate = (optimum, HIGHEST_COST, True)
    rows = cost_rows("no field, J (m²)", costs[N_MEMBERS:], *gate)
    rows += negative_controls(cost_rows("untrained, J (m²)", costs[:N_MEMBERS], *gate))
    _, removed = evaluate(dataclasses.replace(trained, interventions=()), None)

    def same_bits(name: str, trial_costs: np.ndarray) -> Row:
        return Row(f"{name}, same bits", "all", np.sum(trial_costs == removed), removed.size, gate=(1, 1))

    rows += [same_bits("field not in trial", evaluate(trained, None)[1])]
    rows += [same_bits("field not active", evaluate(trained, 3.0, active=False)[1])]
    return rows + negative_controls([same_bits("field active", evaluate(trained, 3.0)[1])])


def analyse(options: argparse.Namespace) -> int:
    """Compare the saved histories with the optimum, print the table, draw the figure."""
    rows, courses = initial_rows(options), {}
    for name in selected_adaptations(options):
        courses[name] = read_course(options, name)
        rows += adaptation_rows(name, courses[name])
    rows += negative_controls(learning_rows("backwards", courses["b=3"].in_field[::-1], courses["b=3"]))
    print_table(rows, "found", "reference")
    for name in ADAPTATIONS.keys() - courses:
        print(f"Not checked (--quick): {name}")
    learned = {name: course for name, course in courses.items() if not ADAPTATIONS[name].must_fail}
    print(*draw_figure(options.out, learned, targets(), deviations, HIGHEST_COST), sep="\n")
    return exit_code(rows)


def main() -> int:
    """Train and save; then, in a fresh process, compare and draw."""
    options = parse_options(
        __file__, __doc__ or "", in_fresh_process=True, short_form="fewer batches, one field and one control"
    )
    if options.saved:
        return analyse(options)
    began = time.perf_counter()
    train_all(options)
    print(f"trained in {time.perf_counter() - began:.0f} s", flush=True)
    return run_on_saved(__file__, options)


if __name__ == "__main__":
    sys.exit(main())
