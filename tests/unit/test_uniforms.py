import numpy as np
import pytest

from varmix._core.rng import UNIFORMS_PER_BLOCK, Uniforms

PATTERN = [1, 5, UNIFORMS_PER_BLOCK - 3, 2, 3 * UNIFORMS_PER_BLOCK, 7, UNIFORMS_PER_BLOCK, 1]


def test_numbers_lie_below_one_and_do_not_repeat():
    stream = Uniforms(0)
    numbers = np.concatenate([stream.take(count).copy() for count in PATTERN])
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert len(np.unique(numbers)) == len(numbers)


@pytest.mark.parametrize("stop", range(len(PATTERN)))
def test_a_saved_stream_goes_on_from_any_place(stop):
    stream = Uniforms(0)
    for count in PATTERN[:stop]:
        stream.take(count)
    other = Uniforms(1)
    other.load_state_dict(stream.state_dict())
    for count in PATTERN[stop:]:
        assert np.array_equal(stream.take(count), other.take(count))


@pytest.mark.parametrize("before", [0, 10, UNIFORMS_PER_BLOCK - 1])
@pytest.mark.parametrize("count", [1, 5, UNIFORMS_PER_BLOCK, 3 * UNIFORMS_PER_BLOCK])
def test_rewinding_gives_the_same_numbers_again(before, count):
    stream = Uniforms(0)
    stream.take(before)
    mark, state = stream.mark(), stream.state_dict()
    expected = [stream.take(count).copy() for _ in range(3)]
    stream.load_state_dict(state)
    mark = stream.mark()
    stream.take(count)
    stream.rewind(mark)
    assert all(np.array_equal(stream.take(count), numbers) for numbers in expected)


def test_seeds_are_64_bits_and_differ():
    stream = Uniforms(0)
    seeds = {stream.seed() for _ in range(100)}
    assert len(seeds) == 100
    assert max(seeds) > 2**62
    assert max(seeds) < 2**64
