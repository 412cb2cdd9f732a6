"""The probit curve with lapses: p = lapse / 2 + (1 - lapse) Phi(eta)."""

import numpy as np
from jaxtyping import Float

Numbers = Float[np.ndarray, "..."]


def probit_share(eta: Numbers, lapse: Numbers | float) -> Numbers:
    """p itself."""
    from scipy.special import ndtr

    return np.asarray(lapse / 2 + (1 - lapse) * ndtr(eta))


def log_shares(eta: Numbers, lapse: float) -> tuple[Numbers, Numbers]:
    """ln p and ln (1 - p), exact also where one of both is near zero."""
    from scipy.special import log_ndtr

    if lapse == 0:
        return np.asarray(log_ndtr(eta)), np.asarray(log_ndtr(-eta))
    guess = np.log(lapse / 2)
    right, left = (np.logaddexp(guess, np.log1p(-lapse) + log_ndtr(side)) for side in (eta, -eta))
    return right, left


def log_share_slopes(eta: Numbers, lapse: float) -> Numbers:
    """ln dp / d eta, exact also where p is near zero or one."""
    return np.log1p(-lapse) - eta**2 / 2 - np.log(2 * np.pi) / 2


def lapse_slopes(eta: Numbers) -> Numbers:
    """dp / d lapse."""
    from scipy.special import ndtr

    return 0.5 - np.asarray(ndtr(eta))
