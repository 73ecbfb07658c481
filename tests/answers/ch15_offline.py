"""Right and wrong answers of chapter 15."""

from pathlib import Path

import numpy as np
import pandas
import ray
import torch
from sklearn.model_selection import GroupShuffleSplit
from torch import nn

from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


# record: rows of episodes, as Parquet files


def rows_of(env, policy, seeds, keep=np.copy, **change):
    """The right rows; `change` makes one of them something else."""
    rows = []
    for number, seed in enumerate(seeds):
        obs, over, t = keep(env.reset(seed=seed)[0]), False, 0
        while not over:
            action = policy(obs)
            seen, reward, terminated, truncated, _ = env.step(action)
            over = terminated or truncated
            row = {"eps_id": number, "t": t, "obs": obs, "actions": action, "rewards": float(reward)}
            row |= {"new_obs": keep(seen), "terminateds": terminated, "truncateds": truncated}
            rows.append(row | {name: made(row) for name, made in change.items()})
            obs, t = keep(seen), t + 1
    return rows


def write(rows, folder, files):
    ray.data.from_items(rows, override_num_blocks=files).write_parquet(folder)


@accepts("record")
def names_its_episodes(env, policy, seeds, folder, files):
    rows = rows_of(env, policy, seeds, eps_id=lambda row: f"episode {row['eps_id']}")
    ray.data.from_pandas(pandas.DataFrame(rows)).repartition(files).write_parquet(folder)


@accepts("record")
def plays_each_episode_in_a_task(env, policy, seeds, folder, files):
    def played(row):
        return rows_of(env, policy, [row["item"]], eps_id=lambda step: row["item"])

    ray.data.from_items(seeds).flat_map(played).repartition(files).write_parquet(folder)


@accepts("record")
def writes_each_file_with_pandas(env, policy, seeds, folder, files):
    Path(folder).mkdir(exist_ok=True)
    frame = pandas.DataFrame(rows_of(env, policy, seeds))
    for number, some in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[some].to_parquet(f"{folder}/{number}.parquet")


@rejects("record", says="keeps the simulator's own array")
def keeps_no_copies(env, policy, seeds, folder, files):
    write(rows_of(env, policy, seeds, keep=lambda obs: obs), folder, files)


@rejects("record", says="lacks these columns: ['t'].")
def leaves_out_the_number_of_the_step(env, policy, seeds, folder, files):
    rows = rows_of(env, policy, seeds)
    write([{name: value for name, value in row.items() if name != "t"} for row in rows], folder, files)


@rejects("record", says="aren't in the chapter's table of columns: ['reward'].")
def writes_the_reward_in_the_singular(env, policy, seeds, folder, files):
    rows = rows_of(env, policy, seeds)
    write([{"reward" if name == "rewards" else name: row[name] for name in row} for row in rows], folder, files)


@rejects("record")
def writes_what_was_seen_afterwards(env, policy, seeds, folder, files):
    write(rows_of(env, policy, seeds, obs=lambda row: row["new_obs"]), folder, files)


@rejects("record")
def repeats_the_observation(env, policy, seeds, folder, files):
    write(rows_of(env, policy, seeds, new_obs=lambda row: row["obs"]), folder, files)


@rejects("record")
def one_flag_for_both_ends(env, policy, seeds, folder, files):
    done = {"terminateds": lambda row: row["terminateds"] or row["truncateds"], "truncateds": lambda row: False}
    write(rows_of(env, policy, seeds, **done), folder, files)


@rejects("record", says="`env.step` returned [True, True]")
def truncated_only_where_not_terminated(env, policy, seeds, folder, files):
    cut = {"truncateds": lambda row: row["truncateds"] and not row["terminateds"]}
    write(rows_of(env, policy, seeds, **cut), folder, files)


@rejects("record", says="was reset with seed=0")
def resets_with_the_number_of_the_episode(env, policy, seeds, folder, files):
    write(rows_of(env, policy, range(len(seeds))), folder, files)


@rejects("record", says="form episodes of [15] steps; the episodes of these seeds have")
def one_name_for_all_episodes(env, policy, seeds, folder, files):
    write(rows_of(env, policy, seeds, eps_id=lambda row: 0), folder, files)


@rejects("record", says="where it should be 0")
def counts_steps_from_one(env, policy, seeds, folder, files):
    write(rows_of(env, policy, seeds, t=lambda row: row["t"] + 1), folder, files)


@rejects("record")
def loses_the_last_step(env, policy, seeds, folder, files):
    rows = rows_of(env, policy, seeds)
    write([row for row in rows if not (row["terminateds"] or row["truncateds"])], folder, files)


@rejects("record")
def as_many_files_as_ray_likes(env, policy, seeds, folder, files):
    ray.data.from_items(rows_of(env, policy, seeds)).write_parquet(folder)


@rejects("record")
def a_file_for_each_episode(env, policy, seeds, folder, files):
    for seed in seeds:
        write(rows_of(env, policy, [seed], eps_id=lambda row, seed=seed: seed), folder, 1)


@rejects("record")
def writes_nothing(env, policy, seeds, folder, files):
    return rows_of(env, policy, seeds)


# hold_out: episodes, not rows


@accepts("hold_out")
def shuffles_a_sorted_list(eps_ids, share, seed):
    episodes = sorted(set(eps_ids.tolist()))
    np.random.default_rng(seed).shuffle(episodes)
    chosen = set(episodes[: round(share * len(episodes))])
    return np.array([name in chosen for name in eps_ids.tolist()])


@accepts("hold_out")
def splits_groups_with_scikit_learn(eps_ids, share, seed):
    count = round(share * len(np.unique(eps_ids)))
    [(_, held_out)] = GroupShuffleSplit(1, test_size=count, random_state=seed).split(eps_ids, groups=eps_ids)
    return np.isin(np.arange(len(eps_ids)), held_out)


@rejects("hold_out", says="`round(0.25 * 10)` is 2")
def rounds_halves_up(eps_ids, share, seed):
    return chosen(eps_ids, int(share * len(np.unique(eps_ids)) + 0.5), seed)


@rejects("hold_out")
def marks_the_rows_to_train_on(eps_ids, share, seed):
    return ~shuffles_a_sorted_list(eps_ids, share, seed)


@rejects("hold_out")
def reads_an_id_as_a_number(eps_ids, share, seed):
    return shuffles_a_sorted_list(eps_ids.astype(int), share, seed)


@rejects("hold_out")
def draws_rows(eps_ids, share, seed):
    return np.random.default_rng(seed).random(len(eps_ids)) < share


@rejects("hold_out")
def in_the_order_of_the_rows(eps_ids, share, seed):
    episodes = np.array(list(dict.fromkeys(eps_ids.tolist())))
    chosen = np.random.default_rng(seed).permutation(episodes)[: round(share * len(episodes))]
    return np.isin(eps_ids, chosen)


def chosen(eps_ids, count, seed):
    return np.isin(eps_ids, np.random.default_rng(seed).permutation(np.unique(eps_ids))[:count])


@rejects("hold_out")
def cuts_the_fraction_off(eps_ids, share, seed):
    return chosen(eps_ids, int(share * len(np.unique(eps_ids))), seed)


@rejects("hold_out")
def always_rounds_up(eps_ids, share, seed):
    return chosen(eps_ids, int(np.ceil(share * len(np.unique(eps_ids)))), seed)


@accepts("hold_out")
def returns_a_list(eps_ids, share, seed):
    return chosen(eps_ids, round(share * len(np.unique(eps_ids))), seed).tolist()


@rejects("hold_out")
def always_the_first_episodes(eps_ids, share, seed):
    episodes = np.unique(eps_ids)
    return np.isin(eps_ids, episodes[: round(share * len(episodes))])


@rejects("hold_out")
def each_episode_with_its_own_coin(eps_ids, share, seed):
    episodes = np.unique(eps_ids)
    coins = np.random.default_rng(seed).random(len(episodes)) < share
    return np.isin(eps_ids, episodes[coins])


@accepts("hold_out")
def returns_a_series(eps_ids, share, seed):
    return pandas.Series(shuffles_a_sorted_list(eps_ids, share, seed))


@rejects("hold_out")
def returns_the_episodes(eps_ids, share, seed):
    episodes = np.unique(eps_ids)
    return np.random.default_rng(seed).permutation(episodes)[: round(share * len(episodes))]


# clone: behaviour cloning


def learn(rows, network, epochs, loss_of, lr=0.01, size=128):
    optimiser = torch.optim.Adam(network.parameters(), lr=lr)
    for _ in range(epochs):
        for batch in rows.iter_torch_batches(batch_size=size, local_shuffle_buffer_size=2000):
            optimiser.zero_grad()
            loss_of(network, batch).backward()
            optimiser.step()
    return network


def cross_entropy(network, batch):
    return nn.functional.cross_entropy(network(batch["obs"]), batch["actions"])


@accepts("clone")
def in_numpy_with_its_own_shuffling(rows, network, epochs):
    frame = rows.to_pandas()
    obs, actions = torch.tensor(np.stack(frame["obs"])), torch.tensor(frame["actions"].to_numpy(dtype=np.int64))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for place in torch.randperm(len(obs)).split(100):
            loss = -network(obs[place]).log_softmax(-1)[torch.arange(len(place)), actions[place]].mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


@accepts("clone")
def with_one_logit(rows, network, epochs):
    def binary(network, batch):
        logits = network(batch["obs"])
        return nn.functional.binary_cross_entropy_with_logits(logits[:, 1] - logits[:, 0], batch["actions"].float())

    return learn(rows, network, epochs, binary)


@rejects("clone", says="Minimize the cross-entropy")
def minimizes_the_squared_error(rows, network, epochs):
    def squared(network, batch):
        wanted = nn.functional.one_hot(batch["actions"], 2).float()
        return nn.functional.mse_loss(network(batch["obs"]), wanted)

    return learn(rows, network, epochs, squared)


@rejects("clone", says="applies the softmax itself")
def gives_the_loss_probabilities_instead_of_logits(rows, network, epochs):
    def squashed(network, batch):
        return nn.functional.cross_entropy(network(batch["obs"]).softmax(1), batch["actions"])

    return learn(rows, network, epochs, squashed)


@rejects("clone", says="passes over the whole dataset")
def makes_only_one_pass(rows, network, epochs):
    return in_numpy_with_its_own_shuffling(rows, network, 1)


@rejects("clone", says="With `obs` as the input")
def takes_the_next_observation_as_the_input(rows, network, epochs):
    def next_obs(network, batch):
        return nn.functional.cross_entropy(network(batch["new_obs"]), batch["actions"])

    return learn(rows, network, epochs, next_obs)


@rejects("clone")
def forgets_the_step(rows, network, epochs):
    for batch in rows.iter_torch_batches(batch_size=128):
        cross_entropy(network, batch).backward()
    return network


@rejects("clone")
def forgets_to_return(rows, network, epochs):
    learn(rows, network, 1, cross_entropy)


@rejects("clone")
def knows_cartpole_by_heart(rows, network, epochs):
    with torch.no_grad():
        for part in network.parameters():
            part.zero_()
        network[0].weight[0] = torch.tensor([0.1, 0.25, 1.0, 0.5])
        network[2].weight[1, 0] = 1.0
    return network


# weights: returns-to-go, advantages, exp


def togo_of(eps_ids, t, rewards, gamma):
    togo, after = np.zeros(len(t)), {}
    for row in np.argsort(-t):
        togo[row] = after[eps_ids[row]] = rewards[row] + gamma * after.get(eps_ids[row], 0.0)
    return togo


def exponential(values, beta):
    weight = np.exp(beta * (values - values.mean()) / values.std())
    return weight / weight.mean()


@accepts("weights")
def with_pandas(eps_ids, t, rewards, gamma, beta):
    frame = pandas.DataFrame({"eps_id": eps_ids, "t": t, "reward": rewards})
    togo = pandas.Series(0.0, index=frame.index)
    for _, own in frame.sort_values("t").groupby("eps_id"):
        for place, row in enumerate(own.index):
            later = own["reward"].to_numpy()[place:]
            togo[row] = float(np.sum(later * gamma ** np.arange(len(later))))
    return exponential(togo.to_numpy(), beta)


@rejects("weights", says="with integers, they aren't")
def returns_of_the_type_of_the_rewards(eps_ids, t, rewards, gamma, beta):
    togo, after = np.zeros_like(rewards), {}
    for row in np.argsort(-t):
        after[eps_ids[row]] = togo[row] = rewards[row] + gamma * after.get(eps_ids[row], 0.0)
    weight = np.exp(beta * (togo - togo.mean()) / togo.std())
    return weight / weight.mean()


@rejects("weights")
def forgets_to_discount(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids, t, rewards, 1.0), beta)


@rejects("weights", says="includes the next episode")
def runs_on_into_the_next_episode(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids * 0, np.arange(len(t)), rewards, gamma), beta)


@rejects("weights", says="your weights were right")
def trusts_the_order_of_the_rows(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids, np.arange(len(t)), rewards, gamma), beta)


@rejects("weights", says="your weights were right")
def returns_them_sorted(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids, t, rewards, gamma)[np.lexsort((t, eps_ids))], beta)


@rejects("weights", says="the rewards before a transition")
def what_came_before_instead_of_after(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids, -t, rewards, gamma), beta)


@rejects("weights")
def without_the_standard_deviation(eps_ids, t, rewards, gamma, beta):
    togo = togo_of(eps_ids, t, rewards, gamma)
    weight = np.exp(beta * (togo - togo.mean()))
    return weight / weight.mean()


@rejects("weights")
def leaves_the_mean_as_it_is(eps_ids, t, rewards, gamma, beta):
    togo = togo_of(eps_ids, t, rewards, gamma)
    return np.exp(beta * (togo - togo.mean()) / togo.std())


@rejects("weights", says="the return of its whole episode")
def the_return_of_the_whole_episode(eps_ids, t, rewards, gamma, beta):
    return exponential(np.array([rewards[eps_ids == name].sum() for name in eps_ids]), beta)


@rejects("weights", says="counts from the start of the episode")
def discounts_from_the_start_of_the_episode(eps_ids, t, rewards, gamma, beta):
    return exponential(togo_of(eps_ids, t, rewards, gamma) * gamma**t, beta)


@rejects("weights", says="divides by n - 1")
def with_the_deviation_of_pandas(eps_ids, t, rewards, gamma, beta):
    togo = pandas.Series(togo_of(eps_ids, t, rewards, gamma))
    weight = np.exp(beta * (togo - togo.mean()) / togo.std())
    return (weight / weight.mean()).to_numpy()


@rejects("weights")
def standardizes_within_each_episode(eps_ids, t, rewards, gamma, beta):
    togo = pandas.Series(togo_of(eps_ids, t, rewards, gamma)).groupby(eps_ids)
    weight = np.exp(beta * togo.transform(lambda own: (own - own.mean()) / own.std(ddof=0)))
    return (weight / weight.mean()).to_numpy()


@rejects("weights")
def leaves_out_the_reward_of_the_step(eps_ids, t, rewards, gamma, beta):
    return exponential((togo_of(eps_ids, t, rewards, gamma) - rewards) / gamma, beta)


@accepts("weights")
def softmax_times_the_number_of_rows_in_32_bits(eps_ids, t, rewards, gamma, beta):
    togo = torch.tensor(togo_of(eps_ids, t, rewards, gamma), dtype=torch.float32)
    advantage = (togo - togo.mean()) / togo.std(correction=0)
    return torch.softmax(beta * advantage, 0) * len(togo)


@accepts("weights")
def returns_a_column_of_pandas(eps_ids, t, rewards, gamma, beta):
    return pandas.Series(exponential(togo_of(eps_ids, t, rewards, gamma), beta))


# beats_the_teacher: weighted cloning


@accepts("beats_the_teacher", long=True)
def weights_by_the_length_of_the_episode(rows, network, epochs):
    frame = rows.to_pandas()
    lengths = frame.groupby("eps_id")["t"].transform("max").to_numpy()
    frame["weight"] = exponential(lengths.astype(float), 2.0).astype(np.float32)
    weighted = ray.data.from_pandas(frame[["obs", "actions", "weight"]])

    def loss(network, batch):
        losses = nn.functional.cross_entropy(network(batch["obs"]), batch["actions"], reduction="none")
        return (batch["weight"] * losses).mean()

    return learn(weighted, network, epochs, loss)


@accepts("beats_the_teacher")
def keeps_only_the_best_episodes(rows, network, epochs):
    frame = rows.to_pandas()
    best = frame.groupby("eps_id")["rewards"].transform("sum") > 200
    return learn(ray.data.from_pandas(frame.loc[best, ["obs", "actions"]]), network, epochs, cross_entropy)


@rejects("beats_the_teacher")
def clones_them_all(rows, network, epochs):
    return learn(rows, network, epochs, cross_entropy)


@accepts("beats_the_teacher")
def samples_by_weight(rows, network, epochs):
    frame = rows.to_pandas()
    strong = exponential(togo_of(*(frame[name].to_numpy() for name in ("eps_id", "t", "rewards")), 0.99), 3.0)
    sampled = frame.sample(len(frame), replace=True, weights=strong, random_state=0)
    return in_numpy_with_its_own_shuffling(ray.data.from_pandas(sampled), network, epochs)


@rejects("beats_the_teacher", says="at least 70%", long=True)
def multiplies_the_mean_of_the_losses(rows, network, epochs):
    frame = rows.to_pandas()
    strong = exponential(togo_of(*(frame[name].to_numpy() for name in ("eps_id", "t", "rewards")), 0.99), 3.0)
    frame["weight"] = strong.astype(np.float32)
    weighted = ray.data.from_pandas(frame[["obs", "actions", "weight"]])

    def loss(network, batch):
        return (batch["weight"] * nn.functional.cross_entropy(network(batch["obs"]), batch["actions"])).mean()

    return learn(weighted, network, epochs, loss)


@rejects("beats_the_teacher", says="more than 95%")
def with_weights_too_weak(rows, network, epochs):
    frame = rows.to_pandas()
    weak = exponential(togo_of(*(frame[name].to_numpy() for name in ("eps_id", "t", "rewards")), 0.99), 0.3)
    sampled = frame.sample(len(frame), replace=True, weights=weak, random_state=0)
    return in_numpy_with_its_own_shuffling(ray.data.from_pandas(sampled), network, epochs)


@rejects("beats_the_teacher")
def knows_the_crane_by_heart(rows, network, epochs):
    return knows_cartpole_by_heart(rows, network, epochs)
