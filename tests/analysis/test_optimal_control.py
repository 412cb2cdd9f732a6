"""The optimum of one's own task: against NumPy's references, its own moments, and what is played."""

import dataclasses
import sys
from pathlib import Path

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import losses, plants
from popsim.analysis import optimal_control
from popsim.noise import NoNoise, without_noise

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from references import lqr, regulator

DT = 0.02


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def build_mass(mass=1.0):
    return plants.PointMass(mass, solver=diffrax.Euler())


def build_task(plant, loss, n_steps=20, n_directions=4, **options):
    times = {"duration": n_steps * DT, "dt": DT}
    return popsim.tasks.CenterOutReaches(
        plant.workspace, distance=0.1, n_directions=n_directions, loss=loss, **times, **options
    )


def final_cost(effort=1e-5):
    cost = losses.PositionError(profile=losses.FinalStep()) + 0.1 * losses.FinalVelocity()
    return cost + effort * losses.Effort()


def linear_problem(reach, **options):
    plant = build_mass(reach.mass)
    task = build_task(plant, final_cost(reach.effort_weight), reach.n_steps, **options)
    std = np.repeat(reach.sensor_noise, 2)
    sensed = popsim.GaussianNoise(std) if std.any() else NoNoise()
    channels = {"vision": popsim.SensoryChannel(popsim.vision, reach.delay * DT, sensed)}
    system = optimal_control.linear_system(plant, plant.rest_state(jnp.zeros(2)), np.zeros(2), dt=DT)
    cost = optimal_control.quadratic_cost(task, plant)
    return task, system, cost, channels


REACHES = {
    "clean": lqr.Reach(dt=DT, n_steps=20),
    "noisy": lqr.Reach(dt=DT, n_steps=20, mass=1.5, force_noise=0.5),
    "delayed": lqr.Reach(dt=DT, n_steps=20, force_noise=0.5, sensor_noise=(1e-3, 1e-2), delay=3),
}


@pytest.mark.parametrize("name", REACHES)
def test_costs_are_those_of_the_reference(name):
    reach = REACHES[name]
    noise = popsim.MotorNoise(0.0, reach.force_noise)
    _, system, cost, channels = linear_problem(reach)
    optimum = optimal_control.lqg(system, cost, channels, motor_noise=noise)
    expected = lqr.optimal_cost(reach, np.array([0.1, 0.0]))
    np.testing.assert_allclose(optimum.costs, expected, rtol=1e-10)
    if name == "clean":
        path = lqr.optimal_reach(reach, np.array([0.1, 0.0]))
        known = optimal_control.lqr(system, cost)
        for found in (optimum, known):
            np.testing.assert_allclose(found.states[0], path, atol=1e-13)
        np.testing.assert_allclose(known.costs, expected, rtol=1e-10)


def test_a_running_cost_from_other_starts():
    of_axis = regulator.Regulator(dt=DT, n_steps=20, position_weight=1.0, effort_weight=0.01)
    loss = losses.PositionError(profile=losses.InWindow()) + 0.01 * losses.Effort()
    loss = loss + of_axis.velocity_weight * losses.VelocityError(profile=losses.InWindow())
    plant = build_mass()
    trials = build_task(plant, loss).validation_trials()
    away = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)) * 0.05)
    trials = eqx.tree_at(lambda t: t.init.position, trials, trials.targets.position[:, -1] + away)
    cost = optimal_control.quadratic_cost(build_task(plant, loss), plant, trials=trials)
    system = optimal_control.linear_system(plant, plant.rest_state(jnp.zeros(2)), np.zeros(2), dt=DT)
    optimum = optimal_control.lqr(system, cost)
    starts = np.stack([np.ravel(away), np.zeros(8)], axis=1)
    expected = regulator.optimal_costs(of_axis, starts).reshape(4, 2).sum(axis=1)
    np.testing.assert_allclose(optimum.costs, expected, rtol=1e-10)
    with pytest.raises(ValueError, match="one start"):
        optimum.controller()


def expected_cost(gains, optimum, trial, constant, dependent):
    """The cost of a pair of control and filter, from the second moments of the state and its prediction."""
    control_gains, filter_gains = gains
    A, B, H = (jnp.asarray(part) for part in (optimum.system.A, optimum.system.B, optimum.system.H))
    n, (n_all, m) = optimum.states.shape[2], B.shape
    keep = jnp.concatenate([jnp.eye(n, n_all), jnp.eye(1, n_all, k=n)])
    start = jnp.tile(jnp.asarray(optimum.start[trial]), 2)
    moments, total, nothing = jnp.outer(start, start), 0.0, jnp.zeros((n_all, n_all))
    for W, L, K in zip(optimum.cost.weights[trial], control_gains, filter_gains, strict=True):
        sense = jnp.block([[jnp.eye(n_all), nothing], [K @ H, jnp.eye(n_all) - K @ H]])
        learned = K @ jnp.diag(jnp.asarray(optimum.system.noise)) @ K.T
        moments = sense @ moments @ sense.T + jnp.block([[nothing, nothing], [nothing, learned]])
        command = jnp.concatenate([jnp.zeros((m, n_all)), -L], axis=1)
        step = jnp.block([[A, -B @ L], [nothing, A - B @ L]])
        of_command = command @ moments @ command.T
        with_command = step @ moments @ command.T
        variance = constant + dependent * jnp.diag(of_command)
        pushed = B @ jnp.diag(variance) @ B.T
        moments = step @ moments @ step.T + jnp.block([[pushed, nothing], [nothing, nothing]])
        after = keep @ moments[:n_all, :n_all] @ keep.T
        both = jnp.block(
            [
                [after[:n, :n], (keep @ with_command[:n_all])[:n]],
                [with_command[:n_all].T @ keep[:n].T, of_command],
            ]
        )
        last = jnp.concatenate([after[n, :n], (keep @ with_command[:n_all])[n]])
        total += jnp.sum(W * jnp.block([[both, last[:, None]], [last[None], after[n:, n:]]]))
    return total


def test_signal_dependent_noise_leaves_no_better_gains():
    reach = lqr.Reach(dt=DT, n_steps=12, sensor_noise=(5e-3, 5e-2), delay=2)
    _, system, cost, channels = linear_problem(reach)
    one = dataclasses.replace(cost, weights=cost.weights[:1], start=cost.start[:1])
    optimum = optimal_control.lqg(system, one, channels, motor_noise=popsim.MotorNoise(0.4, 0.5))
    assert optimum.converged
    gains = jnp.asarray(optimum.control_gains[0]), jnp.asarray(optimum.filter_gains)
    value_and_slope = jax.jit(
        jax.value_and_grad(lambda gains: expected_cost(gains, optimum, 0, 0.5**2, 0.4**2))
    )
    value, slopes = value_and_slope(gains)
    np.testing.assert_allclose(value, optimum.costs[0], rtol=1e-9)
    other, steep = value_and_slope(jax.tree.map(lambda leaf: 1.05 * leaf, gains))
    assert other > 1.001 * value
    for slope, reference in zip(slopes, steep, strict=True):
        assert np.abs(slope).max() < 1e-5 * np.abs(reference).max()


def test_its_controller_plays_it():
    reach, noise = REACHES["delayed"], popsim.MotorNoise(0.2, 0.5)
    task, system, cost, channels = linear_problem(reach)
    optimum = optimal_control.lqg(system, cost, channels, motor_noise=noise)
    loop = popsim.SensorimotorLoop(optimum.controller(), system.plant, channels, noise, dt=DT)
    quiet = popsim.evaluate(without_noise(loop), task, key=jax.random.key(0))
    np.testing.assert_allclose(quiet.states.hand.position, optimum.states[..., :2], atol=1e-14)
    np.testing.assert_allclose(quiet.states.command, optimum.commands, atol=1e-12)
    trials = popsim.repeat_trials(task.validation_trials(), 1000)
    costs = popsim.evaluate(loop, task, trials=trials, key=jax.random.key(1)).losses.total
    costs = np.reshape(costs, (4, 1000))
    errors = costs.std(axis=1) / 1000**0.5
    assert np.all(np.abs(costs.mean(axis=1) - optimum.costs) < 4 * errors)
    untold = eqx.tree_at(lambda t: t.inputs, cost.trials, jax.tree.map(jnp.zeros_like, cost.trials.inputs))
    with pytest.raises(ValueError, match="show in their inputs"):
        eqx.tree_at(lambda found: found.cost.trials, optimum, untold).controller()


def test_the_estimate_is_the_activity_of_a_controller():
    _, system, cost, channels = linear_problem(REACHES["clean"])
    controller = optimal_control.lqg(system, cost, channels).controller()
    hidden = controller.step(
        jnp.ones(controller.n_inputs), controller.init(key=jax.random.key(0)), key=jax.random.key(0)
    )
    moved = controller.with_activity(hidden, controller.activity(hidden) + 1.0)
    np.testing.assert_array_equal(controller.activity(moved), controller.activity(hidden) + 1.0)
    np.testing.assert_allclose(
        controller.read_out(moved), controller.read_out(hidden) - controller.control_gains[0].sum(axis=1)
    )


@pytest.mark.parametrize(
    "body",
    [
        build_mass(2.0),
        plants.TwoLinkArm.arm26_skeleton(),
        pytest.param(plants.arm26(), marks=pytest.mark.full),
    ],
    ids=["mass", "segments", "muscles"],
)
def test_a_linear_system_is_the_step(body):
    command = np.full(body.n_commands, 0.3)
    state = body.rest_state(body.workspace.center)
    system = optimal_control.linear_system(body, state, command, dt=DT)
    at, restore = jax.flatten_util.ravel_pytree(system.state)
    is_linear = not np.any(system.c)
    assert is_linear or not isinstance(body, plants.PointMass)
    rng, small = np.random.default_rng(0), 1e-5
    dx, du = small * rng.normal(size=at.size), small * rng.normal(size=command.size)
    step = jax.jit(lambda x, u: plants.advance(system.plant, restore(x), u, plants.Load(), dt=DT))
    moved = step(at + dx, command + du)
    expected = system.A @ (at + dx) + system.B @ (command + du) + system.c
    np.testing.assert_allclose(jax.flatten_util.ravel_pytree(moved)[0], expected, atol=3e-7 * small**0.5)


class InDeadZone(losses.ObstacleEntry):
    """Deep in a disc of 2 cm on the way: zero at the start, and far from it."""

    def signal(self, states, trial, model):
        from_disc = states.cursor.position - jnp.array([0.05, 0.0])
        return jnp.maximum(0.0, 0.02 - jnp.linalg.norm(from_disc, axis=-1))[:, None]


WRONG_TERMS = {
    "obstacle entry": InDeadZone(),
    "effort change": losses.EffortChange(),
    "hidden activity": losses.HiddenActivity(),
    "weight penalty": losses.WeightPenalty(lambda model: model.network),
    "final position": losses.FinalPosition(distance=losses.HuberDistance(0.01)),
}


@pytest.mark.parametrize("name", WRONG_TERMS)
def test_other_losses_are_refused_by_name(name):
    plant = build_mass()
    with pytest.raises(ValueError, match=f"`task.loss` must .* the term '{name}'"):
        optimal_control.quadratic_cost(build_task(plant, final_cost() + WRONG_TERMS[name]), plant)


def test_an_arm_and_perturbed_trials_are_refused():
    arm = plants.TwoLinkArm.arm26_skeleton()
    with pytest.raises(
        ValueError, match="state of TwoLinkArm .* 'final velocity'|'position error'.*iterative"
    ):
        optimal_control.quadratic_cost(build_task(arm, final_cost()), arm)
    task = build_task(build_mass(), final_cost())
    pushed = popsim.interventions.schedule_intervention(
        task.validation_trials(), "constant force", [1.0, 0.0]
    )
    with pytest.raises(ValueError, match="`trials` must have no interventions"):
        optimal_control.quadratic_cost(task, build_mass(), trials=pushed)


def test_the_iterative_search_finds_the_optimum_of_a_mass():
    task, system, cost, _ = linear_problem(REACHES["clean"])
    known = optimal_control.lqr(system, cost)
    found = optimal_control.iterative_lqr(system.plant, task)
    assert found.converged.all() and len(found.history) < 6
    np.testing.assert_allclose(found.costs, known.costs, rtol=1e-10)
    np.testing.assert_allclose(found.commands, known.commands, atol=1e-8)
    np.testing.assert_allclose(found.control_gains, known.control_gains[..., :4], rtol=1e-4, atol=1e-4)


@pytest.mark.full
def test_the_iterative_search_ends_where_the_cost_of_an_arm_is_flat():
    arm = plants.TwoLinkArm.arm26_skeleton()
    task = build_task(arm, final_cost(1e-6), n_steps=15, n_directions=2)
    found = optimal_control.iterative_lqr(arm, task)
    assert found.converged.all() and np.all(np.diff(found.history, axis=0) <= 0)
    trials, target = task.validation_trials(), task.validation_trials().targets.position[:, -1]

    def cost(commands, start, target):
        path = plants.simulate_plant(arm, commands, initial_state=arm.rest_state(start), dt=DT)
        miss = jnp.sum((path.hand.position[-1] - target) ** 2)
        return miss + 0.1 * jnp.sum(path.hand.velocity[-1] ** 2) + 1e-6 * jnp.sum(commands**2)

    at = found.commands, trials.init.position, target
    value_and_slope = jax.jit(jax.vmap(jax.value_and_grad(cost)))
    values, slopes = value_and_slope(*at)
    np.testing.assert_allclose(values, found.costs, rtol=1e-9)
    _, steep = value_and_slope(1.05 * found.commands, *at[1:])
    assert np.abs(slopes).max() < 1e-4 * np.abs(steep).max()


@pytest.mark.full
def test_muscles_are_driven_within_their_limits():
    body = plants.muscled_point_mass()
    task = build_task(body, losses.PositionError() + 1e-3 * losses.Effort(), n_steps=15, n_directions=2)
    ends = []
    for first in (0.05, 0.5):
        found = optimal_control.iterative_lqr(body, task, limits=(0.0, 1.0), first_command=first)
        assert found.converged.all() and np.isfinite(found.control_gains).all()
        assert found.commands.min() >= 0 and found.commands.max() <= 1
        ends.append(found.costs)
    np.testing.assert_allclose(*ends, rtol=0.1)


def test_a_push_is_answered_though_no_noise_was_expected():
    task, system, cost, channels = linear_problem(REACHES["clean"])
    trials = popsim.interventions.schedule_intervention(
        task.validation_trials(), "constant force", [0.0, 2.0], (np.arange(20) >= 5) & (np.arange(20) < 8)
    )
    ends = []
    for optimum, senses in (
        (optimal_control.lqg(system, cost, channels), channels),
        (optimal_control.lqr(system, cost), channels),
    ):
        loop = popsim.SensorimotorLoop(
            optimum.controller(),
            system.plant,
            senses,
            interventions=(popsim.interventions.ConstantForce(),),
            dt=DT,
        )
        pushed = popsim.evaluate(loop, task, trials=trials, key=jax.random.key(0)).states
        ends.append(pushed.hand.position[:, -1] - optimum.states[:, -1, :2])
    np.testing.assert_allclose(*ends, atol=1e-10)
    assert np.abs(ends[0]).max() < 6e-3  # 2 N for 60 ms on 1 kg would end 29 mm away


class CursorJump(popsim.interventions.AbstractIntervention):
    """The cursor is shown elsewhere than the hand."""

    name: str = eqx.field(static=True, default="jump")
    after_stage: popsim.interventions.Stage = eqx.field(static=True, default="move")

    def apply(self, parameters, state, *, key):
        moved = dataclasses.replace(state.cursor, position=state.cursor.position + parameters)
        return dataclasses.replace(state, cursor=moved)


def test_a_cursor_that_jumps_is_brought_back_though_no_force_moved_it():
    task, system, cost, channels = linear_problem(REACHES["clean"])
    trials = popsim.interventions.schedule_intervention(
        task.validation_trials(), "jump", [0.0, 0.01], np.arange(20) >= 5
    )
    loop = popsim.SensorimotorLoop(
        optimal_control.lqg(system, cost, channels).controller(),
        system.plant,
        channels,
        interventions=(CursorJump(),),
        dt=DT,
    )
    hand = popsim.evaluate(loop, task, trials=trials, key=jax.random.key(0)).states.hand.position
    without = optimal_control.lqr(system, cost).states[:, -1, :2]
    along, against = np.asarray(hand[:, -1] - without).T
    np.testing.assert_allclose(along, 0, atol=1e-10)
    assert np.all((against < -7e-3) & (against > -1e-2))  # within 150 ms, of which it is blind for some


def test_gains_of_a_known_state_do_not_depend_on_what_is_excited():
    """The variance of a command adds k² of its price to its weight; a reach along x says as much of y."""
    _, system, cost, _ = linear_problem(REACHES["clean"])
    along_x = dataclasses.replace(cost, weights=cost.weights[:1], start=cost.start[:1])
    gains = optimal_control.lqr(system, along_x, motor_noise=popsim.MotorNoise(0.4, 0.0)).control_gains[0]
    np.testing.assert_allclose(gains[:, 0, [0, 2]], gains[:, 1, [1, 3]], rtol=1e-9)
    S, A, B = cost.weights[0, -1][:4, :4], system.A, system.B
    R = cost.weights[0, -1][4:6, 4:6]
    price = np.diag(np.diag(B.T @ S @ B)) * 0.4**2
    expected = np.linalg.solve(R + B.T @ S @ B + price, B.T @ S @ A)
    np.testing.assert_allclose(gains[-1][:, :4], expected, rtol=1e-9)


def test_channels_of_several_delays_and_a_body_with_an_offset():
    """Played without noise, the estimate has no error, whatever arrives when."""
    mass = plants.PointMass(1.0, workspace=popsim.Workspace.around(jnp.zeros(3), 0.2), solver=diffrax.Euler())
    channels = {
        "vision": popsim.SensoryChannel(popsim.vision, 3 * DT, popsim.GaussianNoise(1e-3)),
        "body": popsim.SensoryChannel(popsim.proprioception, DT, popsim.GaussianNoise(1e-2)),
        "late": popsim.SensoryChannel(popsim.vision, 5 * DT, own_delay=jnp.array(2 * DT)),
    }
    task, noise = build_task(mass, final_cost()), popsim.MotorNoise(0.0, 0.3)
    system = optimal_control.linear_system(mass, mass.rest_state(jnp.zeros(3)), np.zeros(3), dt=DT)
    optimum = optimal_control.lqg(
        system, optimal_control.quadratic_cost(task, mass), channels, motor_noise=noise
    )
    loop = popsim.SensorimotorLoop(optimum.controller(), mass, channels, noise, dt=DT)
    quiet = popsim.evaluate(without_noise(loop), task, key=jax.random.key(0))
    np.testing.assert_allclose(quiet.states.command, optimum.commands, atol=1e-12)
    trials = popsim.repeat_trials(task.validation_trials(), 1000)
    costs = np.reshape(
        popsim.evaluate(loop, task, trials=trials, key=jax.random.key(1)).losses.total, (4, -1)
    )
    errors = costs.std(axis=1) / costs.shape[1] ** 0.5
    assert np.all(np.abs(costs.mean(axis=1) - optimum.costs) < 4 * errors)


def test_what_does_not_belong_together_is_refused():
    reach = REACHES["clean"]
    task, system, cost, channels = linear_problem(reach)
    mass = system.plant
    slow = optimal_control.linear_system(mass, mass.rest_state(jnp.zeros(2)), np.zeros(2), dt=DT / 2)
    heavy = build_mass(2.0)
    other = optimal_control.linear_system(heavy, heavy.rest_state(jnp.zeros(2)), np.zeros(2), dt=DT)
    free = optimal_control.quadratic_cost(build_task(mass, 1.0 * losses.FinalVelocity()), mass)
    told = {"error": popsim.SensoryChannel(lambda state, plant, inputs: inputs["target"])}
    commanded = {"command": popsim.SensoryChannel(lambda state, plant: state.command)}
    of_ensemble = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), popsim.MotorNoise(0.1, 0.5))
    pair = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), mass)
    for said, call in {
        "`dt` must be that of the system": lambda: optimal_control.lqr(slow, cost),
        "`cost` must be of the body": lambda: optimal_control.lqr(other, cost),
        "cost every command": lambda: optimal_control.lqr(system, free),
        "`channels\\['error'\\]` must sense": lambda: optimal_control.lqg(system, cost, told),
        "`channels\\['command'\\]` must sense": lambda: optimal_control.lqg(system, cost, commanded),
        "`motor_noise`": lambda: optimal_control.lqr(system, cost, motor_noise=of_ensemble),
        "`plant` must be one body": lambda: optimal_control.quadratic_cost(task, pair),
    }.items():
        with pytest.raises(ValueError, match=said):
            call()
