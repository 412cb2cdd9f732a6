"""A small task of each kind: a choice with drawn epochs and catch trials, and reaches with pushes."""

import equinox as eqx
import jax
import jax.numpy as jnp

import popsim


def final_choice(states, trial, model):
    """By how far the mean output is on the wrong side: no sum over time steps."""
    return jax.nn.softplus(-jnp.mean(states.network.output * trial.targets.values))


def choice_loss():
    return 0.5 * popsim.losses.OutputError() + popsim.FunctionTerm("final choice", final_choice)


class Choose(popsim.AbstractTask):
    """After a go cue, which does not come in a quarter of the trials, say on which side the stimulus was."""

    loss: popsim.Loss = eqx.field(default_factory=choice_loss)
    plan: popsim.TrialPlan = eqx.field(
        default_factory=lambda: popsim.TrialPlan(
            (
                popsim.Epoch("stimulus", popsim.distributions.Choice([0.1, 0.2]), event="stimulus on"),
                popsim.Epoch("response", event="go cue"),
            ),
            duration=0.4,
            dt=0.02,
            catch_event="go cue",
            catch_probability=0.25,
        )
    )

    def trial(self, *, batch, key):
        timeline = self.plan.draw(key=popsim.key_stream(key, "plan"))
        side = jax.random.rademacher(popsim.key_stream(key, "side"), (), float)
        return self.of_side(timeline, side)

    def validation_trials(self):
        return jax.vmap(lambda side: self.of_side(self.plan.nominal(), side))(jnp.array([-1.0, 1.0]))

    def of_side(self, timeline, side):
        stimulus = jnp.where(timeline.in_epoch("stimulus"), side, 0.0)
        go = timeline.since("go cue")
        counts = jnp.where(timeline.in_epoch("stimulus"), 0.5, 1.0)
        inputs = {"stimulus": stimulus[:, None], "cues": jnp.stack([go, ~go], axis=-1).astype(float)}
        caught = jnp.where(timeline.happens("go cue"), side, jnp.nan)
        target = popsim.OutputTarget(jnp.where(go, side, 0.0)[:, None], counts)
        return popsim.Trial((), inputs, target, timeline, conditions={"side": side, "answer": caught})


def pushed_reaches(plant, **settings):
    """Random reaches with a push in half of the trials, from 0.1 s on for 0.05 s."""
    plan = popsim.interventions.InterventionPlan(
        "constant force",
        popsim.distributions.Choice([[1.0, 0.0], [0.0, 2.0]]),
        window=popsim.windows.Between(0.1, 0.15),
        probability=0.5,
    )
    task = popsim.tasks.RandomReaches(plant.workspace, duration=0.3, **settings)
    return popsim.tasks.WithInterventions(task, (plan,))
