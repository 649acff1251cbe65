import numpy as np
import pytest

from tfrds.read.randomness import beta, uniforms

POSITIONS = np.arange(20_000)
# The distance of Kolmogorov and Smirnov that 20,000 numbers exceed once in a thousand times.
FAR = 1.95 / np.sqrt(len(POSITIONS))


def distance_from_uniform(numbers):
    ordered = np.sort(numbers)
    return np.abs(ordered - (np.arange(len(ordered)) + 0.5) / len(ordered)).max()


def split_mix(state):
    """SplitMix64's output for a state, in Python's own integers."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


@pytest.mark.parametrize(
    ("seed", "epoch", "position", "stream"),
    [(0, 0, 0, 0), (2**63 - 1, 5, 7, 3), (42, 10**6, 10**10, 0)],
)
def test_numbers_are_those_of_split_mix(seed, epoch, position, stream):
    golden = 0x9E3779B97F4A7C15
    key = 0
    for part in (seed, epoch, stream):
        key = split_mix((key + part + golden) % 2**64)
    state = split_mix((key + position * golden) % 2**64)
    expected = [(split_mix((state + n * golden) % 2**64) >> 11) / 2**53 for n in (1, 2, 3)]
    assert uniforms(seed, epoch, np.array([position]), stream, 3).tolist() == [expected]


def test_numbers_are_frozen():
    found = uniforms(1, 2, np.array([0, 3]), 4, 2)
    expected = [[0.3578270414933514, 0.4951984346909666], [0.7477794924175066, 0.20472902945776117]]
    np.testing.assert_array_equal(found, expected)


def test_an_example_has_its_numbers_in_any_batch():
    whole = uniforms(1, 2, np.arange(100), 0, 5)
    np.testing.assert_array_equal(uniforms(1, 2, np.array([97, 3]), 0, 5), whole[[97, 3]])
    np.testing.assert_array_equal(uniforms(1, 2, np.arange(100), 0, 2), whole[:, :2])


def test_numbers_are_uniform():
    drawn = uniforms(3, 0, POSITIONS, 1, 4)
    assert 0 <= drawn.min()
    assert drawn.max() < 1
    for column in drawn.T:
        assert distance_from_uniform(column) < FAR


def test_neighbours_of_every_kind_are_independent():
    first = uniforms(3, 5, POSITIONS, 1, 2)
    others = [
        uniforms(4, 5, POSITIONS, 1, 1)[:, 0],
        uniforms(3, 6, POSITIONS, 1, 1)[:, 0],
        uniforms(3, 5, POSITIONS, 2, 1)[:, 0],
        uniforms(3, 5, POSITIONS + 1, 1, 1)[:, 0],
        uniforms(5, 3, POSITIONS, 1, 1)[:, 0],
        first[:, 1],
    ]
    for other in others:
        assert abs(np.corrcoef(first[:, 0], other)[0, 1]) < 3.3 / np.sqrt(len(POSITIONS))


UNIFORM = np.linspace(0.001, 0.999, 999)


@pytest.mark.parametrize(
    ("alpha", "distribution"),
    [
        (0.5, lambda x: 2 / np.pi * np.arcsin(np.sqrt(x))),
        (1, lambda x: x),
        (2, lambda x: 3 * x**2 - 2 * x**3),
        (3, lambda x: 10 * x**3 - 15 * x**4 + 6 * x**5),
    ],
)
def test_beta_is_the_inverse_of_its_distribution_function(alpha, distribution):
    np.testing.assert_allclose(distribution(beta(UNIFORM, alpha)), UNIFORM, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.2, 0.4, 1, 10, 100])
def test_beta_has_the_moments_of_its_definition(alpha):
    numbers = beta((np.arange(100_000) + 0.5) / 100_000, alpha)
    assert numbers.mean() == pytest.approx(0.5, abs=1e-9)
    assert numbers.var() == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.01)
    assert (np.diff(numbers) >= 0).all()
    assert (numbers.min() >= 0, numbers.max() <= 1) == (True, True)
