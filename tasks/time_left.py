"""What tasks ask of the times of a trial: that they leave enough for its last epoch."""

from popsim.trial_plan import TrialPlan, longest_time


def check_time_left(plan: TrialPlan, seconds: float, needed_for: str) -> None:
    """Refuse a plan whose last epoch may be too short; durations that are not known are accepted.

    **Arguments:**

    - `plan`: its last epoch has no duration of its own.
    - `seconds`: how long the last epoch must be.
    - `needed_for`: what it needs the time for, for the error message.

    **Raises:** `ValueError` if after all other epochs, as long as they may be, less is left.
    """
    longest = longest_time(plan.epochs[:-1])
    if longest is not None and longest + seconds > plan.duration + 1e-6:
        raise ValueError(
            f"`duration` must be at least {longest + seconds:.4g} s, which leaves time for {needed_for}, "
            f"got {plan.duration} s."
        )
