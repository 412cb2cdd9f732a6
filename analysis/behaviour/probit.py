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


def share_slopes(eta: Numbers, lapse: float) -> tuple[Numbers, Numbers]:
    """The derivatives of p by eta and by the lapse."""
    from scipy.special import ndtr

    density = np.exp(-(eta**2) / 2) / np.sqrt(2 * np.pi)
    return (1 - lapse) * density, 0.5 - np.asarray(ndtr(eta))
