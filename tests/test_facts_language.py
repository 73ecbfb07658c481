"""What chapter 26 says of transformers, GRPO and its variants holds: each fact one test, without Ray."""

import numpy as np
import pytest
import torch

from coursekit.author.definitions import definitions
from coursekit.given.ch26_language_models import exact
from coursekit.given.sorter import PAD, Transformer, random_prompts, supervised, texts


@pytest.fixture(scope="module")
def chapter():
    return definitions("ch26_language_models")


def test_the_model_has_about_59000_weights():
    assert round(sum(part.numel() for part in Transformer().parameters()), -3) == 59_000


def test_with_a_cache_the_model_computes_what_it_computes_from_the_whole_text():
    model, tokens = Transformer(), random_prompts(4, np.random.default_rng(0))
    with torch.no_grad():
        whole, _ = model(tokens)
        logits, cache = model(tokens[:, :3])
        for place in range(3, 6):
            torch.testing.assert_close(logits[:, -1], whole[:, place - 1])
            logits, cache = model(tokens[:, place : place + 1], cache)
        torch.testing.assert_close(logits[:, -1], whole[:, -1])


@pytest.mark.slow
def test_45_supervised_steps_make_about_half_of_the_completions_correct_and_a_few_run_to_the_limit(chapter):
    *_, model = supervised(steps=45, seed=0)
    prompts = random_prompts(512, np.random.default_rng(0))
    completions = texts(chapter["generate"](model, prompts, 16, torch.Generator().manual_seed(0))["completions"])
    assert 0.35 < np.mean([exact(*pair) for pair in zip(texts(prompts), completions, strict=True)]) < 0.65
    assert sum(len(each) == 16 for each in completions) in range(1, 20)


def test_equal_rewards_may_have_a_deviation_above_0_because_of_rounding(chapter):
    rewards = np.full((1, 6), 0.1)
    assert 0 < rewards.std() < 1e-16
    assert abs(rewards - rewards.mean()).max() / rewards.std() == pytest.approx(1, abs=0.5)
    assert abs(chapter["group_advantage"](rewards)).max() < 1e-9


def test_one_correct_completion_of_sixteen_has_an_advantage_near_4(chapter):
    assert chapter["group_advantage"](np.eye(1, 16))[0, 0] == pytest.approx(3.87, abs=0.01)


def test_the_value_of_k3_is_the_kl_from_the_reference_and_its_gradient_is_that_of_the_other_direction():
    rng = torch.Generator().manual_seed(0)
    logits, reference = torch.randn(5, generator=rng).requires_grad_(), torch.randn(5, generator=rng).log_softmax(0)
    logp = logits.log_softmax(0)
    pi, d = logp.exp().detach(), reference - logp
    k3 = (pi * (d.exp() - d - 1)).sum()  # the mean over tokens sampled from the policy, which get no gradient
    forward, backward = (logp.exp() * -d).sum(), (reference.exp() * d).sum()
    torch.testing.assert_close(k3, forward)
    slopes = [torch.autograd.grad(each, logits, retain_graph=True)[0] for each in (k3, forward, backward)]
    torch.testing.assert_close(slopes[0], slopes[2])
    assert not torch.allclose(slopes[0], slopes[1], atol=1e-2)


@pytest.mark.parametrize(("ratio", "advantage", "slope"), [(50, 1, 0), (0.1, -1, 0), (50, -1, 50), (0.1, 1, -0.1)])
def test_the_clip_removes_the_gradient_on_one_side_and_bounds_nothing_on_the_other(chapter, ratio, advantage, slope):
    logp = torch.tensor([[np.log(ratio)]]).requires_grad_()
    zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    chapter["grpo_loss"](logp, zero, zero, torch.tensor([float(advantage)]), one, beta=0).backward()
    assert logp.grad is not None
    assert float(logp.grad) == pytest.approx(slope)


@pytest.mark.slow
def test_an_old_batch_leaves_the_band_and_a_part_of_its_tokens_keeps_a_gradient(chapter):
    *_, start = supervised(steps=45, seed=0)
    model, reference = Transformer(start.weights()), Transformer(start.weights())
    optimizer, rng = torch.optim.Adam(model.parameters(), chapter["LEARNING_RATE"]), np.random.default_rng(0)
    worker, old = chapter["RolloutWorker"](0), None
    for version in range(2):
        worker.set_weights(version, model.weights())
        batch = worker.generate(random_prompts(32, rng), 16)
        pairs = zip(texts(batch["prompts"]), texts(batch["completions"]), strict=True)
        rewards = np.array([exact(*pair) for pair in pairs]).reshape(-1, 16)
        batch["advantages"] = torch.tensor(chapter["group_advantage"](rewards).ravel()).float()
        old = old or batch
        outside, with_gradient, largest = chapter["drift"](model, old)
        for minibatch in chapter["minibatches"](batch, rng):
            chapter["learn"](model, reference, optimizer, minibatch)
    assert 5 < outside < 40
    assert 1 < with_gradient < outside / 2
    assert largest > 1.5
    assert (batch["version"] == 1).all()
    assert (batch["logp"][batch["completions"] == PAD] == 0).all()
