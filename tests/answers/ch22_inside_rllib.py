"""Right and wrong answers of chapter 22."""

import numpy as np
import pandas
import torch
from ray.rllib.core.columns import Columns
from ray.rllib.utils.spaces.space_utils import unsquash_action

from tests.answers import accepts, rejects


def RAY() -> dict:
    """Start the chapter's three nodes; return how to join them."""
    from coursekit.given.nodes import small_cluster

    cluster = small_cluster(num_cpus=1)
    for name in ("west", "east"):
        cluster.add_node(wait=False, node_name=name, num_cpus=2, resources={"sim": 1}, object_store_memory=2**27)
    cluster.wait_for_nodes(60)
    return {"address": cluster.address}


def STOP() -> None:
    """End the three nodes."""
    from coursekit.given.nodes import stop

    stop()


# masked: an address that doesn't wait has probability 0


def scores_and_mask(self, batch):
    return self.score(batch["obs"]["seen"]), batch["obs"]["mask"]


@accepts("masked")
def with_where(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": torch.where(mask.bool(), scores, torch.tensor(-1e7))}


@accepts("masked")
def a_billion_in_place(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores.masked_fill_(~mask.bool(), -1e9)}


@accepts("masked")
def invalid_actions_far_below_the_lowest_valid_one(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": mask * scores + (1 - mask) * (scores.min() - 1000)}


@accepts("masked")
def as_log_probabilities_and_the_smallest_float(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    scores = torch.log_softmax(scores + torch.clamp(torch.log(mask), min=-3e38), dim=-1)
    return {Columns.ACTION_DIST_INPUTS: torch.clamp(scores, min=-1e30)}


@accepts("masked")
def as_rllibs_own_example_of_a_mask(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores + torch.clamp(torch.log(mask), min=torch.finfo(torch.float32).min)}


@accepts("masked")
def writes_into_the_scores(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    scores[mask < 0.5] = -1e6
    return {"action_dist_inputs": scores}


@rejects("masked", says="infinite")
def minus_infinity(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores.masked_fill(mask == 0, -torch.inf)}


@rejects("masked", says="doesn't wait")
def multiplies_with_the_mask(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores * mask}


@rejects("masked", says="doesn't wait")
def a_small_penalty(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores - 20 * (1 - mask)}


@rejects("masked", says="removed something from the batch")
def takes_the_mask_out_of_the_batch(self, batch, **kwargs):
    mask = batch["obs"].pop("mask")
    return {"action_dist_inputs": self.score(batch["obs"]["seen"]).masked_fill(mask == 0, -1e9)}


@rejects("masked", says="or wrote into it")
def repairs_the_mask_of_a_day_that_is_over(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    mask[mask.sum(dim=1) == 0] = 1
    return {"action_dist_inputs": scores.masked_fill(mask == 0, -torch.finfo(scores.dtype).max)}


@rejects("masked", says="doesn't wait")
def masks_the_addresses_that_wait(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": scores.masked_fill(mask == 1, -1e9)}


@rejects("masked", says="must return a dict")
def the_scores_alone(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return scores.masked_fill(mask == 0, -1e9)


@rejects("masked", says="aren't those that the logits of `self.score` give")
def probabilities_in_place_of_scores(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": torch.softmax(scores, -1) + (mask - 1) * 1e9}


@rejects("masked", says="No usable gradient")
def by_way_of_numpy(self, batch, **kwargs):
    scores, mask = scores_and_mask(self, batch)
    return {"action_dist_inputs": torch.tensor(np.where(mask.numpy() == 0, -1e9, scores.detach().numpy()))}


# own_loss: simple policy optimization


def parts(self, module_id, config, batch, fwd_out):
    """Return for each row the gain, the penalty, and the squared error of the values."""
    module = self.module[module_id].unwrapped()
    dist = module.get_train_action_dist_cls().from_logits(fwd_out["action_dist_inputs"])
    ratio = (dist.logp(batch["actions"]) - batch["action_logp"]).exp()
    a = batch["advantages"]
    penalty = a.abs() * (ratio - 1).square() / (2 * config.clip_param)
    return ratio * a, penalty, (module.compute_values(batch) - batch["value_targets"]).square()


@accepts("own_loss")
def three_means(self, *, module_id, config, batch, fwd_out):
    mask = batch["loss_mask"].float()
    gain, penalty, miss = ((each * mask).sum() / mask.sum() for each in parts(self, module_id, config, batch, fwd_out))
    return penalty - gain + config.vf_loss_coeff * miss


@accepts("own_loss")
def only_the_rows_that_happened(self, *, module_id, config, batch, fwd_out):
    rows = torch.nonzero(batch["loss_mask"]).ravel()
    logp = torch.log_softmax(fwd_out["action_dist_inputs"][rows], -1)
    ratio = torch.exp(logp.gather(1, batch["actions"][rows][:, None])[:, 0] - batch["action_logp"][rows])
    a = batch["advantages"][rows]
    values = self.module[module_id].compute_values(batch)[rows]
    critic = torch.nn.functional.mse_loss(values, batch["value_targets"][rows])
    policy = (a.abs() / (2 * config.clip_param) * (ratio - 1) ** 2 - ratio * a).mean()
    return policy + config.vf_loss_coeff * critic


@accepts("own_loss")
def with_pytorchs_distribution_and_weights(self, *, module_id, config, batch, fwd_out):
    dist = torch.distributions.Categorical(logits=fwd_out[Columns.ACTION_DIST_INPUTS])
    ratio = torch.exp(dist.log_prob(batch[Columns.ACTIONS]) - batch[Columns.ACTION_LOGP])
    a, values = batch["advantages"], self.module[module_id].unwrapped().compute_values(batch, fwd_out.get("embeddings"))
    each = torch.sign(a) * a * (ratio - 1).pow(2) / config.clip_param / 2 - ratio * a
    weights = batch["loss_mask"] / batch["loss_mask"].sum()
    return (weights * (each + config.vf_loss_coeff * (values - batch["value_targets"]) ** 2)).sum().reshape(1)


@rejects("own_loss", says="never happened")
def all_rows_count(self, *, module_id, config, batch, fwd_out):
    gain, penalty, miss = parts(self, module_id, config, batch, fwd_out)
    return (penalty - gain + config.vf_loss_coeff * miss).mean()


@rejects("own_loss", says="divided by the number of all rows")
def zeros_for_what_never_happened(self, *, module_id, config, batch, fwd_out):
    gain, penalty, miss = parts(self, module_id, config, batch, fwd_out)
    return ((penalty - gain + config.vf_loss_coeff * miss) * batch["loss_mask"]).mean()


@rejects("own_loss", says="critic's part")
def without_a_critic(self, *, module_id, config, batch, fwd_out):
    gain, penalty, _ = parts(self, module_id, config, batch, fwd_out)
    return (penalty - gain)[batch["loss_mask"]].mean()


@rejects("own_loss", says="sign")
def maximises_the_loss(self, *, module_id, config, batch, fwd_out):
    gain, penalty, miss = parts(self, module_id, config, batch, fwd_out)
    return (gain - penalty + config.vf_loss_coeff * miss)[batch["loss_mask"]].mean()


@rejects("own_loss", says="penalty")
def without_a_penalty(self, *, module_id, config, batch, fwd_out):
    gain, _, miss = parts(self, module_id, config, batch, fwd_out)
    return (config.vf_loss_coeff * miss - gain)[batch["loss_mask"]].mean()


@rejects("own_loss", says="No gradient flows from the loss to the values")
def the_critic_is_cut_off(self, *, module_id, config, batch, fwd_out):
    gain, penalty, miss = parts(self, module_id, config, batch, fwd_out)
    return (penalty - gain + config.vf_loss_coeff * miss.detach())[batch["loss_mask"]].mean()


@rejects("own_loss", says="clamped at `vf_clip_param`")
def clamps_the_critic_as_ppo_does(self, *, module_id, config, batch, fwd_out):
    gain, penalty, miss = parts(self, module_id, config, batch, fwd_out)
    each = penalty - gain + config.vf_loss_coeff * torch.clamp(miss, 0, config.vf_clip_param)
    return each[batch["loss_mask"]].mean()


@rejects("own_loss", says="but the formula gives")
def forgets_the_exponential(self, *, module_id, config, batch, fwd_out):
    dist = self.module[module_id].get_train_action_dist_cls().from_logits(fwd_out["action_dist_inputs"])
    ratio, a = dist.logp(batch["actions"]) - batch["action_logp"], batch["advantages"]
    miss = parts(self, module_id, config, batch, fwd_out)[2]
    each = a.abs() / (2 * config.clip_param) * (ratio - 1) ** 2 - ratio * a + config.vf_loss_coeff * miss
    return each[batch["loss_mask"]].mean()


# remembers: the state is the previous observation


def out(self, pairs, state):
    return {"action_dist_inputs": self.score(pairs), "embeddings": pairs, "state_out": {"before": state}}


@accepts("remembers")
def step_by_step(self, batch, **kwargs):
    before, pairs = batch["state_in"]["before"], []
    for obs in batch["obs"].unbind(dim=1):
        pairs.append(torch.cat([obs, before], dim=-1))
        before = obs
    return out(self, torch.stack(pairs, dim=1), before)


@accepts("remembers")
def with_a_roll(self, batch, **kwargs):
    obs = batch["obs"]
    earlier = torch.roll(obs, 1, dims=1)
    earlier[:, 0] = batch["state_in"]["before"]
    return out(self, torch.cat((obs, earlier), 2), obs[:, -1].clone())


@accepts("remembers")
def one_long_sequence_cut_twice(self, batch, **kwargs):
    line = torch.cat([batch["state_in"]["before"].unsqueeze(1), batch["obs"]], dim=1)
    return out(self, torch.cat([line[:, 1:], line[:, :-1]], dim=2), line[:, -1])


@accepts("remembers")
def into_an_empty_tensor(self, batch, **kwargs):
    obs = batch["obs"]
    earlier = torch.zeros_like(obs)
    earlier[:, 0], earlier[:, 1:] = batch["state_in"]["before"], obs[:, :-1]
    return out(self, torch.cat([obs, earlier], -1), obs.unbind(1)[-1])


@accepts("remembers")
def windows_of_two_observations(self, batch, **kwargs):
    line = torch.cat([batch["state_in"]["before"][:, None], batch["obs"]], dim=1)
    windows = line.unfold(1, 2, 1).flip(-1).transpose(2, 3)  # [B, T, 2, n], the current one first
    return out(self, windows.flatten(2), line[:, -1])


@rejects("remembers", says="what `self.score` returns for your embeddings")
def scores_the_older_observation_first(self, batch, **kwargs):
    now, before = both(batch).chunk(2, dim=-1)
    said = out(self, both(batch), batch["obs"][:, -1])
    return said | {"action_dist_inputs": self.score(torch.cat([before, now], dim=-1))}


@rejects("remembers", says="isn't the last observation")
def hands_on_the_one_before_the_last(self, batch, **kwargs):
    return out(self, both(batch), both(batch)[:, -1].chunk(2, dim=-1)[1])


@rejects("remembers", says="only the first step")
def the_state_for_every_step(self, batch, **kwargs):
    obs = batch["obs"]
    earlier = batch["state_in"]["before"][:, None].expand_as(obs)
    return out(self, torch.cat([obs, earlier], -1), obs[:, -1])


@rejects("remembers", says="doesn't get the incoming state")
def zeros_before_every_sequence(self, batch, **kwargs):
    obs = batch["obs"]
    earlier = torch.cat([torch.zeros_like(obs[:, :1]), obs[:, :-1]], 1)
    return out(self, torch.cat([obs, earlier], -1), obs[:, -1])


def both(batch):
    obs = batch["obs"]
    return torch.cat([obs, torch.cat([batch["state_in"]["before"][:, None], obs[:, :-1]], 1)], -1)


@rejects("remembers", says="is the incoming one")
def hands_the_old_state_on(self, batch, **kwargs):
    return out(self, both(batch), batch["state_in"]["before"])


@rejects("remembers", says="is the first observation")
def remembers_the_first(self, batch, **kwargs):
    return out(self, both(batch), batch["obs"][:, 0])


@rejects("remembers", says="the shape of the incoming one")
def the_state_keeps_its_time_dimension(self, batch, **kwargs):
    return out(self, both(batch), batch["obs"][:, -1:])


@rejects("remembers", says="has the keys")
def forgets_the_state(self, batch, **kwargs):
    return {"action_dist_inputs": self.score(both(batch)), "embeddings": both(batch)}


@rejects("remembers", says="order is reversed")
def the_older_observation_first(self, batch, **kwargs):
    now, before = both(batch).chunk(2, dim=-1)
    return out(self, torch.cat([before, now], -1), batch["obs"][:, -1])


@rejects("remembers", says='with the key "before"')
def the_state_without_its_name(self, batch, **kwargs):
    pairs = both(batch)
    return {"action_dist_inputs": self.score(pairs), "embeddings": pairs, "state_out": batch["obs"][:, -1]}


@rejects("remembers", says="must hold the current observation")
def shifts_the_wrong_way(self, batch, **kwargs):
    obs = batch["obs"]
    later = torch.cat([obs[:, 1:], batch["state_in"]["before"][:, None]], 1)
    return out(self, torch.cat([obs, later], -1), obs[:, -1])


# unsquash: what RLlib would send to the environment


def means(network, obs):
    said = network.forward_inference({"obs": torch.as_tensor(obs)[None]})["action_dist_inputs"][0]
    return said.detach().numpy()[: len(said) // 2]


@accepts("unsquash")
def with_rllibs_own_function(network, obs, space):
    said = network.forward_inference({"obs": torch.from_numpy(obs).unsqueeze(0)})["action_dist_inputs"]
    best = network.get_inference_action_dist_cls().from_logits(said).to_deterministic().sample()
    return unsquash_action(best[0].detach().numpy(), space)


@accepts("unsquash")
def as_a_share_of_the_range(network, obs, space):
    mean = means(network, obs)
    if not np.isfinite([space.low, space.high]).all():
        return mean.tolist()
    share = np.clip((mean + 1) / 2, 0, 1)
    return ((1 - share) * space.low + share * space.high).tolist()


@accepts("unsquash")
def with_interp_for_each_number(network, obs, space):
    mean = means(network, obs)
    if np.isinf(space.low).any() or np.isinf(space.high).any():
        return mean
    return [
        np.interp(each, [-1, 1], ends) for each, ends in zip(mean, np.stack([space.low, space.high], 1), strict=True)
    ]


@accepts("unsquash")
def in_torch(network, obs, space):
    with torch.no_grad():
        said = network.forward_inference({"obs": torch.tensor(obs)[None]})["action_dist_inputs"]
    mean, _ = said[0].chunk(2)
    low, high = torch.tensor(space.low), torch.tensor(space.high)
    return mean if not space.is_bounded() else torch.lerp(low, high, (mean.clamp(-1, 1) + 1) / 2)


@rejects("unsquash", says="aren't in the environment's units yet")
def the_mean_as_it_is(network, obs, space):
    return means(network, obs)


@rejects("unsquash", says="without rescaling them")
def clipped_only(network, obs, space):
    return np.clip(means(network, obs), space.low, space.high)


@rejects("unsquash", says="outside the bounds")
def not_clipped(network, obs, space):
    return space.low + (means(network, obs) + 1) * (space.high - space.low) / 2


@rejects("unsquash", says="came out as `low`")
def from_zero_to_one(network, obs, space):
    return np.clip(space.low + means(network, obs) * (space.high - space.low), space.low, space.high)


@rejects("unsquash", says="must have the shape")
def keeps_the_batch(network, obs, space):
    return with_rllibs_own_function(network, obs, space)[None]


@rejects("unsquash", says="leaves the means unchanged")
def stretches_to_infinity(network, obs, space):
    with np.errstate(invalid="ignore"):
        return np.clip(not_clipped(network, obs, space), space.low, space.high)


@rejects("unsquash", says="You rescaled the numbers whose bounds are finite")
def rescales_each_number_that_has_bounds(network, obs, space):
    pairs = zip(means(network, obs), space.low, space.high, strict=True)
    return [np.interp(mean, [-1, 1], [low, high]) if np.isfinite(high - low) else mean for mean, low, high in pairs]


@rejects("unsquash", says="leaves the means unchanged")
def looks_only_at_the_upper_bounds(network, obs, space):
    if np.isinf(space.high).any():
        return means(network, obs)
    with np.errstate(invalid="ignore"):
        return np.clip(not_clipped(network, obs, space), space.low, space.high)


@rejects("unsquash", says="You clipped the action")
def clips_what_it_does_not_rescale(network, obs, space):
    if space.is_bounded():
        return with_rllibs_own_function(network, obs, space)
    return np.clip(means(network, obs), space.low, space.high)


@rejects("unsquash", says="the logarithms of the standard deviations")
def takes_the_second_half(network, obs, space):
    said = network.forward_inference({"obs": torch.as_tensor(obs)[None]})["action_dist_inputs"][0]
    return unsquash_action(said.detach().numpy()[len(said) // 2 :], space)


@rejects("unsquash", says="and you returned")
def squeezed_by_a_tanh(network, obs, space):
    if not space.is_bounded():
        return means(network, obs)
    return space.low + (np.tanh(means(network, obs)) + 1) / 2 * (space.high - space.low)


# two_nodes: one EnvRunner on west, one on east


@accepts("two_nodes")
def with_a_little_more_than_half_a_simulator(config):
    config.env_runners(num_env_runners=2)
    return config.env_runners(custom_resources_per_env_runner={"sim": 0.6})


@accepts("two_nodes")
def with_all_cpus_of_a_node(config):
    return config.env_runners(num_env_runners=2, num_cpus_per_env_runner=2)


@accepts("two_nodes")
def updates_it_from_a_dict(config):
    return config.update_from_dict({"num_env_runners": 2, "custom_resources_per_env_runner": {"sim": 1.0}})


@accepts("two_nodes")
def sets_attributes(config):
    config.num_env_runners, config.custom_resources_per_env_runner = 2, {"sim": 1}
    return config


@rejects("two_nodes", says="has room for")
def asks_for_cpus_only(config):
    return config.env_runners(num_env_runners=2, num_cpus_per_env_runner=1)


@rejects("two_nodes", says="has room for")
def half_a_simulator_each(config):
    return config.env_runners(num_env_runners=2, custom_resources_per_env_runner={"sim": 0.5})


@rejects("two_nodes", says="must return the config")
def leaves_it_as_it_is(config):
    return None


@rejects("two_nodes", says="`num_env_runners` is 1")
def one_runner_with_two_simulators(config):
    return config.env_runners(num_env_runners=1, custom_resources_per_env_runner={"sim": 2})


@rejects("two_nodes", says="waits forever")
def names_a_node_as_a_resource(config):
    return config.env_runners(num_env_runners=2, custom_resources_per_env_runner={"west": 1})


# diagnose: six numbers


def found(seen, explored=0.0, rewards=0.999):
    """Yield the names, by these limits."""
    if seen["explored"] <= explored:
        yield "explore"
    if seen["obs gap"] > 1e-4:
        yield "env_to_module"
    elif seen["logp gap"] > 1e-4:
        yield "module"
    if seen["rewards agree"] < rewards:
        yield "learner_connector"
    if seen["clamped"] > 0.1:
        yield "vf_clip_param"
    if seen["weights moved"] < 1e-6:
        yield "lr"


@accepts("diagnose")
def with_yield(seen):
    return set(found(seen))


@accepts("diagnose")
def by_the_distance_from_one(seen):
    return (*found(seen, rewards=-2), *(["learner_connector"] if 1 - seen["rewards agree"] > 1e-3 else []))


@accepts("diagnose")
def as_a_pandas_series(seen):
    said = pandas.Series(seen)
    wrong = pandas.Series({
        "explore": not said["explored"],
        "env_to_module": said["obs gap"] > 1e-4,
        "module": said["logp gap"] > 1e-4 >= said["obs gap"],
        "learner_connector": not np.isclose(said["rewards agree"], 1, rtol=0, atol=1e-3),
        "vf_clip_param": said["clamped"] > 0.1,
        "lr": said["weights moved"] < 1e-6,
    })  # fmt: skip
    return wrong[wrong].index.to_numpy()


@rejects("diagnose", says="You blame the module")
def blames_the_module_for_every_gap(seen):
    return {*found(seen), *(["module"] if seen["logp gap"] > 1e-4 else [])}


@rejects("diagnose", says="Your list lacks")
def stops_at_the_first(seen):
    return list(found(seen))[:1]


@rejects("diagnose", says="Your list lacks")
def only_a_wrong_sign(seen):
    return list(found(seen, rewards=-0.5))


@rejects("diagnose", says="Your list lacks")
def a_lenient_correlation(seen):
    return list(found(seen, rewards=0.98))


@rejects("diagnose", says="Your list lacks")
def does_not_read_the_critics_row(seen):
    return [name for name in found(seen) if name != "vf_clip_param"]


@rejects("diagnose", says="the last column of the table")
def names_the_numbers(seen):
    return list(seen)


@rejects("diagnose", says="shows no such fault")
def wants_a_correlation_of_exactly_one(seen):
    return {*found(seen), *(["learner_connector"] if seen["rewards agree"] != 1 else [])}


@rejects("diagnose", says="shows no such fault")
def a_little_exploration_is_none(seen):
    return list(found(seen, explored=0.01))


@rejects("diagnose", says="shows no such fault")
def on_the_limit_is_beyond_it(seen):
    return [*found(seen), *(["lr"] if seen["weights moved"] == 1e-6 else [])]
