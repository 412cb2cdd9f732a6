"""What the hand did, and what was chosen."""

from popsim.analysis.behaviour.intervals import produced_interval as produced_interval
from popsim.analysis.behaviour.kinematics import cursor_error as cursor_error
from popsim.analysis.behaviour.kinematics import end_point_error as end_point_error
from popsim.analysis.behaviour.kinematics import hand_speed as hand_speed
