"""Mean-field theory of large random networks: their autocorrelation and their largest Lyapunov exponent.

Units x' = -x + J tanh(x), in units of their time constant, with entries of J of variance g^2 / N. For N ->
infinity their autocorrelation D(t) obeys

    D'' = D - g^2 C(D),    C(D) = <tanh(x) tanh(y)> for normal x and y of variance D(0) and covariance D,

a particle at D in the potential V(D) = -D^2 / 2 + g^2 * integral of C from 0 to D. Chaos is the motion from
rest at D(0) to rest at 0, so V(D(0)) = V(0) = 0 fixes D(0). Small deviations grow at the rate

    -1 + sqrt(1 - E),    E the lowest level of -d^2/dt^2 + 1 - g^2 C'(D(t)),

where C'(D) = <tanh'(x) tanh'(y)>. The derivative of D(t) is a state of level 0, which is the second lowest.

With tanh(x) as a sum of normalised Hermite polynomials of squared coefficients p_k, C = sum of p_k c^k with
c = D / D(0): so all averages are power series.

Euler steps of size h, x -> (1 - h) x + h J tanh(x), have a theory of their own, by the same derivation with
shifts in place of derivatives (done here; the networks of `chaos.py` check it). With d2 the second
difference, and m the factor by which deviations grow in a step,

    (1 - h) d2 D / h^2 = D - g^2 C(D),    (m - 1 + h)^2 = largest eigenvalue of (1 - h) m d2 + h^2 g^2 C'(D).

Sources: Sompolinsky, Crisanti & Sommers 1988, Phys Rev Lett 61:259-262; Price 1958, IRE Trans Inf Theory
4:69-72, for the derivative of C. No popsim here.
"""

import numpy as np

N_TERMS = 400  # of the power series, whose terms fall below 1e-10 there for D(0) up to 8
NODES = np.linspace(-12, 12, 481)  # of the trapezoid rule, where exp(-z^2 / 4) is down to rounding
RANGE = 40.0  # of time lags, where D is down to 1e-4 of D(0) at g = 1.5, and further for larger gains


def hermite_powers(variance: float) -> np.ndarray:
    """p_k [k]: the squared coefficients of tanh(sqrt(variance) z) in Hermite polynomials of norm 1."""
    weights = np.exp(-(NODES**2) / 2) / np.sqrt(2 * np.pi) * (NODES[1] - NODES[0])
    weighted = weights * np.tanh(np.sqrt(variance) * NODES)
    before, polynomial = np.zeros_like(NODES), np.ones_like(NODES)
    powers = np.empty(N_TERMS)
    for k in range(N_TERMS):
        powers[k] = np.sum(weighted * polynomial) ** 2
        following = (NODES * polynomial - np.sqrt(k) * before) / np.sqrt(k + 1)
        before, polynomial = polynomial, following
    return powers


def continuous_variance(gain: float) -> float:
    """D(0) of continuous time, from V(D(0)) = 0, for a gain above 1."""

    def lacks_energy(variance: float) -> bool:
        return variance / 2 > gain**2 * np.sum(hermite_powers(variance) / np.arange(1, N_TERMS + 1))

    return bisect(lacks_energy, 1e-6, gain**2)


def bisect(is_too_large, low: float, high: float) -> float:
    """The number between `low` and `high` up to which `is_too_large` is false."""
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (low, middle) if is_too_large(middle) else (middle, high)
    return low


def autocorrelation(gain: float, spacing: float, step: float) -> np.ndarray:
    """D [lag] at lags that are `spacing` apart, from 0 up to `RANGE`.

    **Arguments:**

    - `gain`: g, above 1.
    - `spacing`: that of Euler steps is their size; that of continuous time is small.
    - `step`: h, the size of Euler steps; 0 for continuous time.
    """
    guess = continuous_variance(gain)

    def turns_back(variance: float) -> bool:
        return shoot(variance, gain, spacing, step)[-1] > 0

    found = shoot(bisect(turns_back, 0.9 * guess, 1.1 * guess), gain, spacing, step)[:-1]
    return np.pad(found, (0, round(RANGE / spacing) + 1 - len(found)))


def shoot(variance: float, gain: float, spacing: float, step: float) -> np.ndarray:
    """D [lag] from rest at `variance` up to where it first rises or is negative, at the latest at `RANGE`."""
    powers, orders = hermite_powers(variance), np.arange(N_TERMS)
    course = [variance]
    change = 0.0
    while len(course) < RANGE / spacing + 2:
        now = course[-1]
        acceleration = (now - gain**2 * powers @ (now / variance) ** orders) / (1 - step)
        # D is even, so that the first change is half of the second difference.
        change += spacing**2 * acceleration / (2 if len(course) == 1 else 1)
        course.append(float(now + change))
        if change > 0 or course[-1] < 0:
            break
    return np.array(course)


def levels(gain: float, course: np.ndarray, spacing: float, kinetic: float) -> np.ndarray:
    """The eigenvalues of kinetic d2 / spacing^2 + g^2 C'(D), the largest first, for D [lag] from lag 0 on."""
    powers, orders = hermite_powers(course[0]), np.arange(1, N_TERMS)
    slopes = (course[:, None] / course[0]) ** (orders - 1) @ (orders * powers[1:]) / course[0]
    both_sides = np.concatenate([slopes[:0:-1], slopes])
    beside = np.full(len(both_sides) - 1, kinetic / spacing**2)
    matrix = (
        np.diag(gain**2 * both_sides - 2 * kinetic / spacing**2) + np.diag(beside, 1) + np.diag(beside, -1)
    )
    return np.linalg.eigvalsh(matrix)[::-1]


def continuous_exponent(gain: float, spacing: float = 0.05) -> float:
    """The largest Lyapunov exponent of continuous time, in units of 1 / time constant."""
    course = autocorrelation(gain, spacing, step=0.0)
    return float(np.sqrt(levels(gain, course, spacing, kinetic=1.0)[0]) - 1)


def euler_exponent(gain: float, step: float) -> float:
    """The largest Lyapunov exponent of Euler steps, log(m) / h, in the same units."""
    course = autocorrelation(gain, step, step)
    growth = 1.0
    for _ in range(8):  # m is near 1, and the levels depend on it so little that a few repetitions are enough
        largest = levels(gain, course, step, (1 - step) * growth)[0]
        growth = 1 - step + step * np.sqrt(largest)
    return float(np.log(growth) / step)
