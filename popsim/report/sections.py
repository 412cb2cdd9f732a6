"""What the report of a run is made of, in order."""

from popsim.report.population_section import draw_population
from popsim.report.section import Section
from popsim.report.similarity_section import draw_similarity
from popsim.report.weights_section import draw_weights

SECTIONS = (
    Section(
        "Learning and behaviour",
        "How the networks learned, and what they do at the end.",
        lambda run: run.experiment.draw_figures(run),
    ),
    Section(
        "Weights over training",
        "How far learning moved the weights, and in how many dimensions.",
        draw_weights,
    ),
    Section(
        "Activity of the population", "In how many dimensions units are active together.", draw_population
    ),
    Section("Members beside each other", "Whether members found the same solution.", draw_similarity),
)
"""Each answers one question to a run; add one here."""
