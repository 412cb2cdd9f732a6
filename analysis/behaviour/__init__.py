"""What the hand did, and what was chosen."""

from popsim.analysis.behaviour.adaptation_index import adaptation_index as adaptation_index
from popsim.analysis.behaviour.after_effects import after_effect as after_effect
from popsim.analysis.behaviour.channel_forces import channel_force as channel_force
from popsim.analysis.behaviour.channel_forces import ideal_channel_force as ideal_channel_force
from popsim.analysis.behaviour.choice_shares import ChoiceShares as ChoiceShares
from popsim.analysis.behaviour.choice_shares import choice_shares as choice_shares
from popsim.analysis.behaviour.chronometric import ChronometricCurve as ChronometricCurve
from popsim.analysis.behaviour.chronometric import chronometric_curve as chronometric_curve
from popsim.analysis.behaviour.chronometric import decision_time as decision_time
from popsim.analysis.behaviour.end_points import EndPointEllipse as EndPointEllipse
from popsim.analysis.behaviour.end_points import end_point_ellipse as end_point_ellipse
from popsim.analysis.behaviour.initial_direction import initial_direction_error as initial_direction_error
from popsim.analysis.behaviour.initial_direction import launch_angle as launch_angle
from popsim.analysis.behaviour.intervals import produced_interval as produced_interval
from popsim.analysis.behaviour.kinematics import cursor_error as cursor_error
from popsim.analysis.behaviour.kinematics import end_point_error as end_point_error
from popsim.analysis.behaviour.kinematics import hand_speed as hand_speed
from popsim.analysis.behaviour.movement_times import FixedSpeed as FixedSpeed
from popsim.analysis.behaviour.movement_times import ShareOfPeak as ShareOfPeak
from popsim.analysis.behaviour.movement_times import SpeedThreshold as SpeedThreshold
from popsim.analysis.behaviour.movement_times import movement_duration as movement_duration
from popsim.analysis.behaviour.movement_times import movement_offset as movement_offset
from popsim.analysis.behaviour.movement_times import movement_onset as movement_onset
from popsim.analysis.behaviour.paths import curvature as curvature
from popsim.analysis.behaviour.paths import path_length as path_length
from popsim.analysis.behaviour.paths import path_ratio as path_ratio
from popsim.analysis.behaviour.peak_speed import PeakSpeed as PeakSpeed
from popsim.analysis.behaviour.peak_speed import peak_speed as peak_speed
from popsim.analysis.behaviour.perpendicular_deviation import (
    maximum_perpendicular_deviation as maximum_perpendicular_deviation,
)
from popsim.analysis.behaviour.perpendicular_deviation import (
    perpendicular_deviation as perpendicular_deviation,
)
from popsim.analysis.behaviour.preparation import preparatory_activity as preparatory_activity
from popsim.analysis.behaviour.psychometric import LapsingPsychometricFit as LapsingPsychometricFit
from popsim.analysis.behaviour.psychometric import PsychometricFit as PsychometricFit
from popsim.analysis.behaviour.psychometric import fit_psychometric as fit_psychometric
from popsim.analysis.behaviour.psychometric import (
    fit_psychometric_with_lapses as fit_psychometric_with_lapses,
)
from popsim.analysis.behaviour.reaction_time import reaction_time as reaction_time
from popsim.analysis.behaviour.speed_peaks import count_speed_peaks as count_speed_peaks
