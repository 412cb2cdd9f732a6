import jax
import jax.numpy as jnp
import numpy as np

from popsim import OutputTarget, choice_accuracy, correct_choice, output_choice


def test_the_choice_among_several_is_the_largest_mean_where_one_is_asked_for():
    values = jnp.array([[0.0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 0]])
    counts = jnp.array([1.0, 1, 0, 1, 3])
    outputs = jnp.array([[99.0, 0, 0], [99, 0, 0], [0, 0, 99], [0, 3, 1], [0, 0, 0.9]])
    target = OutputTarget(values, counts)
    assert int(correct_choice(target)) == 1
    assert int(output_choice(outputs, target)) == 2  # 3 * 1 < 1 * 1 + 3 * 0.9
    assert int(output_choice(outputs.at[4, 2].set(0.5), target)) == 1


def test_an_output_that_counts_nowhere_is_never_chosen():
    values = jnp.zeros((4, 3)).at[2:, 1].set(1.0)
    counts = jnp.ones((4, 3)).at[:, 2].set(0.0).at[3, 0].set(0.0)
    target = OutputTarget(values, counts)
    outputs = jnp.array([[0.0, 0, 0], [0, 0, 0], [1, 2, 9], [9, 2, 9]])
    assert int(correct_choice(target)) == 1 and int(output_choice(outputs, target)) == 1
    assert int(output_choice(outputs, OutputTarget(values, jnp.ones((4, 3))))) == 2
    assert int(output_choice(outputs, OutputTarget(values, jnp.zeros((4, 3))))) == -1


def test_what_does_not_count_may_be_nan():
    values = jnp.full((4, 3), jnp.nan).at[3].set(jnp.array([0.0, 0, 1]))
    outputs = jnp.full((4, 3), jnp.nan).at[3].set(jnp.array([0.0, 2, 1]))
    counts = jnp.array([0.0, 0, 0, 1])
    for each in (counts, counts[:, None] * jnp.ones(3)):
        target = OutputTarget(values, each)
        assert int(correct_choice(target)) == 2 and int(output_choice(outputs, target)) == 1


def test_one_output_is_the_log_odds_of_choice_one():
    counts = jnp.array([0.0, 1.0, 1.0])
    for right in (0, 1):
        target = OutputTarget(jnp.full((3, 1), float(right)), counts)
        assert int(correct_choice(target)) == right
        assert int(output_choice(jnp.array([[-9.0], [0.4], [-0.3]]), target)) == 1
        assert int(output_choice(jnp.array([[9.0], [-0.4], [0.3]]), target)) == 0


def test_the_accuracy_of_each_member_leaves_out_trials_that_ask_for_no_choice():
    values = jnp.zeros((4, 2, 2)).at[jnp.arange(3), 1, jnp.array([0, 1, 1])].set(1.0)  # the last is silent
    target = OutputTarget(values, jnp.ones((4, 2)))
    outputs = jnp.stack([values, 1 - values, values.at[0, 1].set(jnp.array([0.0, 1.0]))])
    np.testing.assert_array_equal(correct_choice(target), [0, 1, 1, -1])
    np.testing.assert_array_equal(output_choice(outputs, target)[1], [1, 0, 0, -1])
    np.testing.assert_allclose(jax.jit(choice_accuracy)(outputs, target), [1, 0, 2 / 3], rtol=1e-6)
    silent = OutputTarget(values[3:], jnp.ones((1, 2)))
    assert np.all(np.isnan(jax.jit(choice_accuracy)(outputs[:, 3:], silent)))
    uncounted = OutputTarget(values, jnp.zeros((4, 2)))
    np.testing.assert_array_equal(correct_choice(uncounted), -1)
