"""Analysis: pure functions from histories and states to arrays; `figures` draws them."""

if __name__ != "popsim.analysis":
    raise ImportError(f"import this package as `popsim.analysis`, not as `{__name__}`.")

from popsim.analysis.kinematics import end_point_error as end_point_error
from popsim.analysis.kinematics import hand_speed as hand_speed
