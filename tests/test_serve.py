"""Chapter 18 serves what chapter 11 trains: the layers that leave RLlib act as the network does."""

import gymnasium
import numpy as np
import pytest
import torch

from coursekit.given.ch18_serve import Policy, layers_of, policy_in


def network(**settings):
    """Return the network that PPO builds for CartPole with these settings, with weights of its own."""
    from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    env = gymnasium.make("CartPole-v1")
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    model = DefaultModelConfig(**settings)
    module = RLModuleSpec(module_class=DefaultPPOTorchRLModule, model_config=model, **spaces).build()
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in module.parameters():
            weights.normal_()
    return module


@pytest.mark.parametrize(
    ("settings", "shapes"),
    [
        ({"fcnet_hiddens": [64, 64], "vf_share_layers": False}, [(64, 4), (64, 64), (2, 64)]),  # chapter 11's
        ({"fcnet_hiddens": [8], "vf_share_layers": True}, [(8, 4), (2, 8)]),
    ],
)
def test_a_policy_acts_as_the_network_whose_layers_it_has(settings, shapes):
    trained = network(**settings)
    policy = Policy(3, layers_of(trained))
    observations = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    scores = trained.forward_inference({"obs": torch.from_numpy(observations)})["action_dist_inputs"]
    assert [matrix.shape for matrix, _ in policy.layers] == shapes
    assert policy.actions(observations) == scores.argmax(dim=1).tolist()
    assert len(set(policy.actions(observations))) == 2


def test_a_policy_is_found_where_an_algorithm_saves_it(tmp_path):
    trained = network(fcnet_hiddens=[64, 64], vf_share_layers=False)
    trained.save_to_path(tmp_path / "learner_group" / "learner" / "rl_module" / "default_policy")
    found = policy_in(tmp_path, version=7)
    assert found.version == 7
    for layer, mine in zip(found.layers, layers_of(trained), strict=True):
        assert all(np.array_equal(part, other) for part, other in zip(layer, mine, strict=True))
