"""What chapter 21 says of trees, rings, DDP, V-trace, checkpoints, and streams, where a few lines can hold it."""

import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from coursekit.author.definitions import definitions
from coursekit.given.ch21_learners import Stuck, together, tree
from tests.rays import a_ray


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


def test_in_a_ring_of_a_hundred_learners_each_one_sends_1980_of_1000_numbers_in_198_messages():
    chapter = definitions("ch21_learners")
    arrays, messages = chapter["busiest"](chapter["all_reduce"], 100, numbers=1000)
    assert (1000 * arrays, messages) == (1980, 198)


def test_with_a_limit_of_1_vtrace_learns_the_values_of_the_policy_that_goes_right_in_five_of_eight_steps():
    chapter = definitions("ch21_learners")
    true, learned = chapter["true_values"], chapter["learned_values"]
    for found, right in [(learned(True, 1.0), 5 / 8), (learned(True, 2.0), 0.7), (learned(False), 0.5)]:
        np.testing.assert_allclose(found, true(right), atol=0.03)
    assert np.all((true(0.5) + 0.03 < learned(True, 1.0)) & (learned(True, 1.0) < true(0.7)))


def test_torch_load_reads_generators_and_optimizers_by_default_and_refuses_other_objects(tmp_path):
    policy = torch.nn.Linear(2, 1)
    optimizer, rng = torch.optim.Adam(policy.parameters()), np.random.default_rng(0)
    policy(torch.ones(2)).sum().backward()
    optimizer.step()
    state = {"optimizer": optimizer.state_dict(), "numpy": rng.bit_generator.state, "torch": torch.get_rng_state()}
    torch.save(state, tmp_path / "state")
    assert torch.load(tmp_path / "state")["numpy"] == rng.bit_generator.state
    torch.save({"path": Path()}, tmp_path / "object")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "object")


def started_writer(ray):
    """Start an actor that streams numbers and leaves a file for each."""

    class Writer:
        def stream(self, folder, count):
            for number in range(count):
                Path(folder, str(number)).touch()
                yield number

    return ray.remote(Writer).remote()


@pytest.mark.slow
def test_backpressure_counts_the_fragments_that_next_has_not_taken_whether_or_not_anybody_used_them(tmp_path):
    with a_ray(num_cpus=1) as ray:
        writer = started_writer(ray)
        stream = writer.stream.options(_generator_backpressure_num_objects=2).remote(str(tmp_path), 9)
        ray.wait([stream])
        time.sleep(2)
        assert len(list(tmp_path.iterdir())) <= 3
        assert len(list(stream)) == 9  # references only
        assert len(list(tmp_path.iterdir())) == 9


@pytest.mark.slow
def test_next_of_a_stream_that_has_ended_is_ready_and_a_method_that_yields_streams_by_default(tmp_path):
    with a_ray(num_cpus=1) as ray:
        writer = started_writer(ray)
        stream = writer.stream.remote(str(tmp_path), 1)
        assert isinstance(stream, ray.ObjectRefGenerator)
        assert ray.get(next(stream)) == 0
        assert ray.wait([stream], timeout=20) == ([stream], [])
        with pytest.raises(StopIteration):
            next(stream)
