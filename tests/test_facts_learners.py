"""What chapter 21 says of trees, rings and DDP, where a few lines can hold it."""

import numpy as np
import pytest

from coursekit.given.ch21_learners import Stuck, together, tree


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16])
def test_a_tree_gives_every_learner_the_mean_and_its_busiest_one_sends_at_most_three_arrays(size):
    arrays = np.random.default_rng(0).normal(size=(size, 5))
    results, post = together(tree, arrays)
    assert all(np.array_equal(result, results[0]) for result in results)
    np.testing.assert_allclose(results[0], arrays.mean(0))
    sent = [sum(count for sender, _, count in post.messages if sender == me) for me in range(size)]
    assert max(sent) <= 3 * 5
    assert len(post.messages) == 2 * (size - 1)


def test_learners_that_all_wait_are_told_so():
    with pytest.raises(Stuck, match="learner 0 for learner 1, learner 1 for learner 0"):
        together(lambda array, me, size, send, receive: receive(1 - me), [[1.0], [2.0]])


def test_one_that_waits_for_a_learner_that_has_ended_is_told_so():
    with pytest.raises(Stuck, match="learner 0 for learner 1"):
        together(lambda array, me, size, send, receive: me or receive(1), [[1.0], [2.0]])


def test_ddps_buckets_hold_25_mib():
    from torch.nn.parallel import distributed

    assert distributed._DEFAULT_BUCKET_CAP_MB == 25
