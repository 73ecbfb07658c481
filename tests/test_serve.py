"""Chapter 18 serves what chapter 11 trains: the layers that leave RLlib act as the network does. Its probes wait for Serve."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import requests
import torch
from ray import serve

from coursekit.given import ch18_serve
from coursekit.given.ch18_serve import Policy, deployed, layers_of, policy_in
from coursekit.judging.answer import OwnRequestFailed


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


class Running(dict):
    """What Serve says of its applications: each that is asked for runs."""

    def __missing__(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(status="RUNNING", message="")


@pytest.fixture
def proxy(monkeypatch) -> list:
    """Return the next answers of a proxy to those who ask for its routes; no Serve runs."""
    answers: list = []

    def get(url: str, timeout: float) -> SimpleNamespace:
        if isinstance(answers[0], Exception):
            raise answers.pop(0) if len(answers) > 1 else answers[0]
        return SimpleNamespace(text=answers.pop(0))

    monkeypatch.setattr(ch18_serve, "serving", lambda: "http://serve")
    monkeypatch.setattr(ch18_serve.rendezvous, "new_point", lambda: "point")
    monkeypatch.setattr(ch18_serve.rendezvous, "patience", lambda: 0.2)
    monkeypatch.setattr(serve, "RunTarget", lambda *_, **settings: settings)
    monkeypatch.setattr(serve, "run_many", lambda *_, **settings: None)
    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications=Running()))
    monkeypatch.setattr(serve, "delete", lambda *_, **settings: None)
    monkeypatch.setattr(requests, "get", get)
    return answers


def test_a_proxy_that_does_not_answer_yet_is_waited_for(proxy):
    proxy[:] = [requests.ConnectionError("refused"), "{}", requests.ConnectionError("refused"), '{"/check-point": ""}']
    with deployed(None) as (url, stuck):
        assert (url, stuck) == ("http://serve/check-point", "")
    assert proxy == []


def test_a_proxy_that_never_answers_is_no_learners_fault(proxy, monkeypatch):
    proxy[:] = [requests.ConnectionError("refused")]
    monkeypatch.setattr(ch18_serve, "LONGEST", 0.2)
    with pytest.raises(OwnRequestFailed, match="Serve's proxy does not answer"), deployed(None):
        pass
