"""Random numbers that depend on (seed, epoch, position) and nothing else; no TensorFlow.

Gets the positions of a batch's examples in the epoch's order, gives uniform numbers for each stage
of augmentation. There is no state: an example gets the same numbers in whatever batch, process or
engine it is read.
"""

import functools

import numpy as np
from numpy.typing import NDArray

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: SplitMix64's step

# Points of the quantile table of a beta distribution, linear between them: exact to 1e-5 for alpha
# from 0.05 to 100.
_QUANTILES = 4096


def uniforms(
    seed: int, epoch: int, positions: NDArray[np.int64], stream: int, count: int
) -> NDArray[np.float64]:
    """Returns float64 [n, count], independent and uniform in 0 <= u < 1.

    Args:
      seed: of the dataset, 0..2^63 - 1.
      epoch: counted from 0.
      positions: int64 [n], of the examples in the order of the epoch.
      stream: 0, 1, ...: of the stage that uses them.
      count: numbers for each example.

    Source: SplitMix64 (Steele, Lea, Flood 2014), as a hash of the counters. Numpy's generators
    would have to be seeded anew for each example: 10 us, for all numbers here 0.1.
    """
    key = 0
    for part in (seed, epoch, stream):
        key = int(_mix(np.array([(key + part + _GOLDEN) & _MASK], np.uint64))[0])
    states = _mix(np.uint64(key) + positions.astype(np.uint64) * np.uint64(_GOLDEN))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    bits = _mix(states[:, np.newaxis] + steps)
    numbers: NDArray[np.float64] = (bits >> np.uint64(11)) * np.float64(2.0**-53)
    return numbers


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def beta(uniform: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
    """Returns numbers of the symmetric Beta(alpha, alpha) distribution, from uniform ones.

    By the inverse of its distribution function: rejection, as numpy does it, would use a varying
    count of uniform numbers.
    """
    lower = np.minimum(uniform, 1 - uniform)
    values = np.interp(lower * 2, *_lower_half(alpha))
    numbers: NDArray[np.float64] = np.where(uniform < 0.5, values, 1 - values)
    return numbers


@functools.cache
def _lower_half(alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the distribution function, from 0 to 1, at points of 0..0.5, and these points."""
    # Below 1 the density has a pole at 0, but none as a function of x^alpha.
    power = min(alpha, 1.0)
    points = np.linspace(0, 0.5**power, _QUANTILES) ** (1 / power)
    density = points ** (alpha - power) * (1 - points) ** (alpha - 1)
    total = np.concatenate([[0], np.cumsum(density[1:] + density[:-1])])
    return total / total[-1], points
