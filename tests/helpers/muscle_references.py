"""The laws of the muscles, written a second time: in numpy, point by point, as biomechanics has them."""

import math

import numpy as np

MUSCLES = "hill", "thelen", "mujoco", "li_todorov", "fast", "slow"

BROWN = {
    "li_todorov": ((1.93, 1.03, 1.87), (-3.12, 4.21, -2.67), 0.62, -5.72, (1.38, 2.09), (2.11, 4.16)),
    "fast": ((1.55, 0.81, 2.12), (-1.53, 0.0, 0.0), 1.05, -7.39, (-3.21, 4.17), (2.11, 3.31)),
    "slow": ((2.30, 1.26, 1.62), (-4.70, 8.41, -5.34), 0.18, -4.06, (5.88, 0.0), (2.11, 5.0)),
}


def fraction(name, activation, length, velocity):
    """Force in maximal isometric forces, of arrays of points: x is the length of the fibre."""
    laws = {"hill": hill, "thelen": thelen, "mujoco": mujoco}
    law = laws.get(name) or (lambda *point: brown(name, *BROWN[name], *point))
    return np.vectorize(law, otypes=[float])(activation, length, velocity)


def hill_constants(a, x):
    isometric = max(1 - (x - 1) ** 2 / 0.66**2, 0.01)
    a_rel = 0.41 * isometric if x > 1 else 0.41
    b_rel = 5.2 if a >= 0.3 else 5.2 * (1 - 0.9 * (a - 0.3) / (0.005 - 0.3)) ** 2
    return isometric, a_rel, b_rel


def hill_passive(x):
    return max(x - 1.4, 0) ** 2 / (1.66 - 1.4) ** 2


def hill(a, x, v):
    isometric, a_rel, b_rel = hill_constants(a, x)
    if v <= 0:
        active = max((v * a * a_rel + isometric * a * b_rel) / (b_rel - v), 0)
    else:
        d = 0.25 * isometric * b_rel / (a_rel + isometric)
        active = 1.5 * isometric * a - 0.5 * isometric * a * d / (v + d)
    return active + hill_passive(x)


def thelen(a, x, v):
    w = v / ((0.25 + 0.75 * a) * 10)
    if w <= -1:
        by_velocity = 0
    elif w <= 0:
        by_velocity = (1 + w) / (1 - w / 0.25)
    else:
        c = (2 + 2 / 0.25) / (1.4 - 1)
        by_velocity = (1 + c * w * 1.4) / (1 + c * w)
    passive = (math.exp(5 * (x - 1) / 0.6) - 1) / (math.exp(5) - 1) if x > 1 else 0
    return a * math.exp(-((x - 1) ** 2) / 0.45) * by_velocity + passive


def bump(x, start, middle, end):
    left, right = (start + middle) / 2, (middle + end) / 2
    if x <= start or x >= end:
        return 0
    if x < left:
        return 0.5 * ((x - start) / (left - start)) ** 2
    if x < middle:
        return 1 - 0.5 * ((middle - x) / (middle - left)) ** 2
    if x < right:
        return 1 - 0.5 * ((x - middle) / (right - middle)) ** 2
    return 0.5 * ((end - x) / (end - right)) ** 2


def mujoco(a, x, v):
    w = v / 1.5
    if w <= -1:
        by_velocity = 0
    elif w <= 0:
        by_velocity = (1 + w) ** 2
    elif w <= 0.2:
        by_velocity = 1.2 - (0.2 - w) ** 2 / 0.2
    else:
        by_velocity = 1.2
    middle = (1 + 1.6) / 2
    if x <= 1:
        passive = 0
    elif x <= middle:
        passive = 0.25 * 1.3 * ((x - 1) / (middle - 1)) ** 3
    else:
        passive = 0.25 * 1.3 * (1 + 3 * (x - middle) / (middle - 1))
    by_length = bump(x, 0.5, 1, 1.6) + 0.15 * bump(x, 0.5, (0.5 + 0.95) / 2, 0.95)
    return a * by_length * by_velocity + passive


def push_of(name, x):
    """The push of a compressed muscle: Li & Todorov 2004 write 13.8 - 18.7 l, the fibres have r2 = .79."""
    exponent = 13.8 - 18.7 * x if name == "li_todorov" else -18.7 * (x - 0.79)
    return -0.02 * math.exp(exponent)


def li_todorov_activation_rate(a, u):
    """da/dt in 1/s, as in the public copies of the model of Li & Todorov 2004."""
    return (u - a) / np.where(u > a, 0.066 + u * (0.05 - 0.066), 0.066)


def brown(name, curve, lengthening, b, v_max, shortening, recruitment, a, x, v):
    beta, omega, rho = curve
    n = recruitment[0] + recruitment[1] * (1 / x - 1)
    recruited = 1 - math.exp(-((a / (0.56 * n)) ** n))
    if v <= v_max:
        by_velocity = 0
    elif v <= 0:
        by_velocity = (v_max - v) / (v_max + v * (shortening[0] + shortening[1] * x))
    else:
        a0, a1, a2 = lengthening
        by_velocity = (b - v * (a0 + a1 * x + a2 * x**2)) / (b + v)
    by_length = math.exp(-(abs((x**beta - 1) / omega) ** rho))
    return recruited * max(by_length * by_velocity + push_of(name, x), 0)
