"""What the report of a run is made of, in order."""

from popsim.report.section import Section

SECTIONS = (
    Section(
        "Learning and behaviour",
        "How the networks learned, and what they do at the end.",
        lambda run: run.experiment.draw_figures(run),
    ),
)
"""Each answers one question to a run; add one here."""
