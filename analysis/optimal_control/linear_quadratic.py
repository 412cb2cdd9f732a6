"""The linear-quadratic regulator, with the state known or estimated from delayed, noisy senses."""

from collections.abc import Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_same_dt
from popsim.analysis.optimal_control.costs import QuadraticCost
from popsim.analysis.optimal_control.linear_systems import (
    DelayedSystem,
    LinearSystem,
    add_senses,
    motor_variances,
)
from popsim.network_input import inputs_by_name
from popsim.networks import LinearController
from popsim.noise import AbstractNoise
from popsim.senses import SensoryChannel

__all__ = ["LinearOptimum", "lqr", "lqg"]

MOST_ITERATIONS, RELATIVE_TOLERANCE, MOST_CONDITION = 500, 1e-12, 1e14


class LinearOptimum(eqx.Module):
    """The optimal linear control of trials: u = -L ẑ, with ẑ estimated by ẑ = z⁻ + K (y - H z⁻).

    z is (x, 1, delayed features in transit), z⁻ what the estimate and the command of the step before
    predict, A ẑ + B u.

    - `costs`: the expected cost of each trial, J*.
    - `states`, `commands`: without noise, x after each step, and u.
    - `control_gains`, `filter_gains`: L and K. All trials share K.
    - `system`: A, B, H, and the variances of y.
    - `start`: z before the first step.
    - `converged`: False if signal-dependent noise took more iterations than `lqg` makes.
    """

    costs: Float[np.ndarray, " trial"]
    states: Float[np.ndarray, "trial time state"]
    commands: Float[np.ndarray, "trial time command"]
    control_gains: Float[np.ndarray, "trial time command all"]
    filter_gains: Float[np.ndarray, "time all feature"]
    system: DelayedSystem
    start: Float[np.ndarray, "trial all"]
    cost: QuadraticCost
    converged: bool = eqx.field(static=True)

    def controller(self) -> LinearController:
        """Return the optimum as a network, for a loop with the same body and channels, and no `scaling`.

        Its inputs are those of the trials and then the features of the channels, both sorted by name. It
        knows a trial by its inputs, and the start of these trials. An optimum whose commands are not an
        affine function of the inputs at each time step is refused, as where a target counts before it is
        shown. The trials must span the inputs that the controller will meet.
        """
        trials, n_state = self.cost.trials, self.states.shape[2]
        if np.ptp(self.start, axis=0).any() or np.ptp(self.cost.weights[..., :-1, :-1], axis=0).any():
            raise ValueError(
                "`trials` of a controller must have one start, and one cost but for the places of targets, "
                "got several: make a controller for each."
            )
        by_name = inputs_by_name(trials.inputs)
        leaves = [leaf for name in sorted(by_name) for leaf in jax.tree.leaves(by_name[name])]
        n_trials, n_steps = self.commands.shape[:2]
        shown = np.concatenate([np.reshape(leaf, (n_trials, n_steps, -1)) for leaf in leaves], axis=2)
        shown = np.append(shown, np.ones((n_trials, n_steps, 1)), axis=2)
        wanted = -self.control_gains[..., n_state]
        gains = np.linalg.pinv(shown.swapaxes(0, 1), rcond=1e-9) @ wanted.swapaxes(0, 1)
        missed = np.abs(np.einsum("kti,tic->ktc", shown, gains) - wanted).max()
        if missed > 1e-6 * np.abs(wanted).max():
            raise ValueError(
                "`trials` of a controller must show in their inputs, at each time step, on what the optimal "
                f"command depends, got one that differs by {missed:.3g} from any affine function of them."
            )
        feedback = self.control_gains[0].copy()
        feedback[..., n_state] = -gains[:, -1]
        return LinearController(
            control_gains=feedback,
            input_gains=gains[:, :-1].swapaxes(1, 2),
            filter_gains=self.filter_gains,
            A=self.system.A,
            B=self.system.B,
            H=self.system.H,
            start=self.start[0],
        )


def lqr(
    system: LinearSystem, cost: QuadraticCost, *, motor_noise: AbstractNoise | None = None
) -> LinearOptimum:
    """Return the optimal control of a linear body whose state is known.

    No controller has a lower expected cost. What its `controller()` senses is the state, as a vector.

    **Arguments:**

    - `system`: the body, with the time step of the trials.
    - `cost`: the cost of the trials.
    - `motor_noise`: on the command: `MotorNoise` or `GaussianNoise`; by default none.
    """
    n, m = system.B.shape
    A, B = np.eye(n + 1), np.zeros((n + 1, m))
    A[:n, :n], A[:n, n], B[:n] = system.A, system.c, system.B
    return _optimum(system, DelayedSystem(A, B, np.eye(n, n + 1), np.zeros(n)), cost, motor_noise, True)


def lqg(
    system: LinearSystem,
    cost: QuadraticCost,
    channels: Mapping[str, SensoryChannel],
    *,
    motor_noise: AbstractNoise | None = None,
) -> LinearOptimum:
    """Return the optimal control of a linear body that senses and its own commands tell of.

    Delays are states of an extended system; the start of a trial is known. With additive noise no causal
    controller has a lower expected cost. With signal-dependent noise this is the best pair of a linear
    control and a filter whose gains do not depend on what was sensed; each is optimised given the other
    (Todorov 2005, Neural Comput 17:1084-1108, section 3). Damiani et al. 2024 (NeurIPS 37) find that his
    derivation takes estimates as unbiased, which noise within the estimator makes wrong. There is none here;
    tests check that the cost is stationary in all gains.

    **Arguments:**

    - `system`: the body, about the operating point about which senses are linearised.
    - `cost`: the cost of the trials.
    - `channels`: the senses by name, as of a `SensorimotorLoop`, with no noise or `GaussianNoise`.
    - `motor_noise`: as for `lqr`.
    """
    return _optimum(system, add_senses(system, channels), cost, motor_noise, False)


def _optimum(
    system: LinearSystem,
    delayed: DelayedSystem,
    cost: QuadraticCost,
    motor_noise: AbstractNoise | None,
    knows_state: bool,
) -> LinearOptimum:
    check_same_dt(cost.trials.timeline.dt, system.dt, "system")
    if not eqx.tree_equal(system.plant, cost.plant):
        raise ValueError("`cost` must be of the body of `system`, got that of another.")
    n, (n_all, m), n_steps = cost.start.shape[1], delayed.B.shape, cost.weights.shape[1]
    constant, dependent = motor_variances(motor_noise, m)
    if dependent.any() and not knows_state and np.ptp(cost.weights[..., :-1, :-1], axis=0).any():
        raise ValueError(
            "`cost` must be the same in all trials but for the places of targets, for senses with "
            "signal-dependent noise: all trials share a filter. Call lqg for the trials of each kind."
        )
    at = np.r_[:n, n_all : n_all + m, n]  # (x, u, 1) in (z, u)
    weights = np.zeros((*cost.weights.shape[:2], n_all + m, n_all + m))
    weights[..., at[:, None], at] = cost.weights
    start = np.zeros((len(cost.start), n_all))
    start[:, :n], start[:, n] = cost.start, 1.0
    for _ in range(n_all - n - 1):  # the longest delay has no more steps
        start[:, n + 1 :] = start @ delayed.A[n + 1 :].T
    # Without any noise every filter is as good: one that corrects what no noise explains, such as a push, or,
    # where no force explains what is sensed, a body that is elsewhere.
    is_exact = not (constant.any() or dependent.any() or delayed.noise.any())
    variances = np.tile(np.ones(m) if is_exact else constant, (n_steps, 1))
    elsewhere = np.zeros(n_all)
    elsewhere[:n] = 1e-6 * np.sum(delayed.B**2) / n if is_exact else 0.0
    costs, converged, n_iterations = np.full(len(start), np.inf), False, 0
    control_gains = filter_gains = states = commands = np.zeros(0)
    while not converged and n_iterations < MOST_ITERATIONS:
        n_iterations += 1
        filter_gains, learned = _filter(delayed, variances, elsewhere)
        if knows_state:
            filter_gains, learned = np.tile(delayed.H.T, (n_steps, 1, 1)), np.zeros_like(learned)
        before = costs
        control_gains, costs = _control(delayed, weights, filter_gains, constant, dependent, start)
        states, commands, squared = _play(delayed, control_gains, learned, start)
        variances = constant + dependent * squared
        is_settled = np.abs(costs - before).max() <= RELATIVE_TOLERANCE * np.abs(costs).max()
        converged = bool(knows_state or not dependent.any() or is_settled)
    return LinearOptimum(
        costs, states[..., :n], commands, control_gains, filter_gains, delayed, start, cost, converged
    )


def _filter(
    delayed: DelayedSystem,
    variances: Float[np.ndarray, "time command"],
    elsewhere: Float[np.ndarray, " all"],
) -> tuple[Float[np.ndarray, "time all feature"], Float[np.ndarray, "time all all"]]:
    """Return K, and the covariance of z that y removes, for the variances of noise on commands and on z."""
    A, B, H = delayed.A, delayed.B, delayed.H
    P, gains, learned = np.zeros_like(A), [], []
    for variance in variances:
        innovation = H @ P @ H.T + np.diag(delayed.noise)
        # The pseudoinverse stands for the inverse, so that senses without noise are filtered too.
        gains.append(P @ H.T @ np.linalg.pinv(innovation, rcond=1e-12, hermitian=True))
        learned.append(gains[-1] @ H @ P)
        P = A @ (P - learned[-1]) @ A.T + (B * variance) @ B.T + np.diag(elsewhere)
    return np.array(gains), np.array(learned)


def _control(
    delayed: DelayedSystem,
    weights: np.ndarray,
    filter_gains: np.ndarray,
    constant: np.ndarray,
    dependent: np.ndarray,
    start: np.ndarray,
) -> tuple[Float[np.ndarray, "trial time command all"], Float[np.ndarray, " trial"]]:
    """Return L and the expected costs. The cost to go is z' S z + e' E e + rest, e the error of z⁻."""
    A, B, H, noise = delayed.A, delayed.B, delayed.H, delayed.noise
    n, m = B.shape
    both = np.vstack([np.hstack([A, B]), np.eye(m, n + m, k=n)])  # (z, u) to (z after the step, u)
    S = E = np.zeros((len(weights), n, n))
    rest, gains = np.zeros(len(weights)), []
    for W, K in zip(weights.swapaxes(0, 1)[::-1], filter_gains[::-1], strict=True):
        after = W.copy()
        after[:, :n, :n] += S
        M = both.T @ after @ both
        price = np.einsum("ac,kab,bc->kc", B, after[:, :n, :n] + E, B)  # of a unit of variance of u
        M_uu = M[:, n:, n:] + (dependent * price)[:, None] * np.eye(m)
        if not np.all(np.linalg.cond(M_uu) < MOST_CONDITION):
            raise ValueError("`task.loss` must cost every command, as with + 1e-5 * Effort(), got none.")
        L = np.linalg.solve(M_uu, M[:, n:, :n])
        known = M[:, :n, n:] @ L
        S, E = M[:, :n, :n] - known, known + A.T @ E @ A
        rest = rest + price @ constant + np.einsum("if,kij,jf,f->k", K, E, K, noise)
        keep = np.eye(n) - K @ H
        S, E = (S + S.swapaxes(1, 2)) / 2, keep.T @ (E + E.swapaxes(1, 2)) @ keep / 2
        gains.append(L)
    return np.stack(gains[::-1], axis=1), np.einsum("ki,kij,kj->k", start, S, start) + rest


def _play(
    delayed: DelayedSystem, control_gains: np.ndarray, learned: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return z and u without noise, and with it the mean over trials of each command squared."""
    z, spread, path = start, np.zeros((len(start), *delayed.A.shape)), []  # spread: the covariance of ẑ
    for L, more in zip(control_gains.swapaxes(0, 1), learned, strict=True):
        spread = spread + more
        u = -np.einsum("kci,ki->kc", L, z)
        squared = np.mean(u**2 + np.einsum("kci,kij,kcj->kc", L, spread, L), axis=0)
        closed = delayed.A - delayed.B @ L
        z, spread = z @ delayed.A.T + u @ delayed.B.T, closed @ spread @ closed.swapaxes(1, 2)
        path.append((z, u, squared))
    states, commands, squared = zip(*path, strict=True)
    return np.stack(states, axis=1), np.stack(commands, axis=1), np.array(squared)
