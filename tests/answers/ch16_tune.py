"""Right and wrong answers of chapter 16."""

import tempfile

import numpy as np
from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.tune.stopper import MaximumIterationStopper

from coursekit.given.ch16_tune import Network
from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


def opened(config):
    """Return the network of the checkpoint from which a trial continues, or a new one."""
    network, start = Network(config["hidden"]), tune.get_checkpoint()
    if start is not None:
        with start.as_directory() as folder:
            network.load(folder)
    return network


def report(network, metrics):
    with tempfile.TemporaryDirectory() as folder:
        network.save(folder)
        tune.report(metrics, checkpoint=tune.Checkpoint.from_directory(folder))


# objective: train an epoch, report it together with a checkpoint, and continue from one


@accepts("objective")
def counts_in_a_for_loop(config, data):
    network = opened(config)
    for epoch in range(network.epochs + 1, config["epochs"] + 1):
        network.train(data["train"][0], data["train"][1], config["lr"])
        report(network, {"epoch": epoch, **network.test(*data["choose"])})


@accepts("objective")
def one_folder_for_all_epochs(config, data):
    network, start = Network(config["hidden"]), tune.get_checkpoint()
    if start:
        network.load(start.to_directory())
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(config["epochs"] - network.epochs):
            network.train(*data["train"], config["lr"])
            network.save(folder)
            metrics = network.test(*data["choose"])
            metrics["epoch"] = network.epochs
            tune.report(metrics, checkpoint=tune.Checkpoint(folder))


def metrics_of(network, data, of="choose"):
    return {"epoch": network.epochs, **network.test(*data[of])}


def after_each_epoch(config, data, tell):
    """Train as the exercise asks, and leave the reports to `tell`."""
    network = opened(config)
    while network.epochs < config["epochs"]:
        network.train(*data["train"], lr=config["lr"])
        tell(network)


@rejects("objective", says='gave "epoch" as [')
def trains_all_epochs_again_after_a_restart(config, data):
    network = opened(config)
    for _ in range(config["epochs"]):
        network.train(*data["train"], lr=config["lr"])
        report(network, {"epoch": network.epochs, **network.test(*data["choose"])})


@rejects("objective")
def reports_once_in_the_end(config, data):
    network = opened(config)
    while network.epochs < config["epochs"]:
        network.train(*data["train"], lr=config["lr"])
    report(network, {"epoch": network.epochs, **network.test(*data["choose"])})


@rejects("objective", says="without a checkpoint")
def a_checkpoint_every_second_epoch(config, data):
    def tell(network):
        metrics = metrics_of(network, data)
        if network.epochs % 2:
            tune.report(metrics)
        else:
            report(network, metrics)

    after_each_epoch(config, data, tell)


@rejects("objective", says='no "loss"')
def reports_only_the_accuracy(config, data):
    def tell(network):
        metrics = metrics_of(network, data)
        del metrics["loss"]
        report(network, metrics)

    after_each_epoch(config, data, tell)


@rejects("objective", says="should be a number")
def reports_the_whole_test_as_accuracy(config, data):
    def tell(network):
        report(network, {"epoch": network.epochs, "accuracy": network.test(*data["choose"])})

    after_each_epoch(config, data, tell)


@rejects("objective")
def saves_and_never_looks(config, data):
    network = Network(config["hidden"])
    while network.epochs < config["epochs"]:
        network.train(*data["train"], lr=config["lr"])
        report(network, {"epoch": network.epochs, **network.test(*data["choose"])})


@rejects("objective")
def only_the_number_of_epochs_goes_on(config, data):
    old, network = opened(config), Network(config["hidden"])
    network.epochs = old.epochs
    while network.epochs < config["epochs"]:
        network.train(*data["train"], lr=config["lr"])
        report(network, {"epoch": network.epochs, **network.test(*data["choose"])})


@rejects("objective", says="In epoch 1,")
def tests_on_what_it_trained_with(config, data):
    after_each_epoch(config, data, lambda network: report(network, metrics_of(network, data, of="train")))


@rejects("objective")
def reports_as_older_tutorials_do(config, data):
    after_each_epoch(config, data, lambda network: tune.report(**metrics_of(network, data)))


# tuner: every combination once, resources, folder, scheduler and callbacks


def grid_of(space):
    return {name: tune.grid_search(value) if isinstance(value, list) else value for name, value in space.items()}


def made(trainable, space, cpus, folder, scheduler, callbacks, metric="accuracy", mode="max", reuse=True, verbose=0):
    return tune.Tuner(
        tune.with_resources(trainable, {"cpu": cpus}),
        param_space=space,
        tune_config=tune.TuneConfig(metric=metric, mode=mode, scheduler=scheduler, reuse_actors=reuse),
        run_config=tune.RunConfig(storage_path=folder, callbacks=callbacks, verbose=verbose),
    )


@accepts("tuner")
def by_placement_group_and_name(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    asked = tune.PlacementGroupFactory([{"CPU": cpus}])
    return tune.Tuner(
        tune.with_resources(trainable, asked),
        param_space=grid_of(space),
        tune_config=tune.TuneConfig("max", "accuracy", scheduler=scheduler, reuse_actors=True),
        run_config=tune.RunConfig(name="mine", storage_path=folder, callbacks=callbacks, verbose=0),
    )


@rejects("tuner")
def hands_the_lists_over_as_they_are(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, space, cpus, folder, scheduler, callbacks)


@rejects("tuner")
def leaves_out_what_is_fixed(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    grid = {name: tune.grid_search(value) for name, value in space.items() if isinstance(value, list)}
    return made(trainable, grid, cpus, folder, scheduler, callbacks)


@rejects("tuner")
def a_whole_cpu_each(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), 1, folder, scheduler, callbacks)


@rejects("tuner", says="together with the values that aren't lists")
def tries_the_values_of_a_tuple(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in space.items()}
    return made(trainable, grid_of(lists), cpus, folder, scheduler, callbacks)


@rejects("tuner")
def forgets_the_callbacks(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, None)


@rejects("tuner", says="mode='min'")
def the_smallest_accuracy_is_best(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, callbacks, mode="min")


@rejects("tuner")
def forgets_the_scheduler(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, None, callbacks)


@rejects("tuner")
def a_folder_of_its_own(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, f"{folder}/mine", scheduler, callbacks)


@rejects("tuner", says="start a new process")
def a_new_process_for_each_trial(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, callbacks, reuse=False)


@rejects("tuner", says="verbose=1, set by you or by default")
def prints_its_tables(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, callbacks, verbose=None)


@rejects("tuner", says="metric=None")
def does_not_say_what_is_best(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, callbacks, metric=None, mode=None)


@rejects("tuner", says="called fit()")
def fits_it_already(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    return made(trainable, grid_of(space), cpus, folder, scheduler, callbacks).fit()


@rejects("tuner")
def forgets_to_return(trainable, space, cpus, folder, scheduler=None, callbacks=None):
    made(trainable, grid_of(space), cpus, folder, scheduler, callbacks)


# best_config: the highest accuracy of any epoch


@accepts("best_config")
def by_hand(results):
    best, found = -1.0, None
    for result in results:
        frame = result.metrics_dataframe
        if frame is None or "accuracy" not in frame:
            continue
        for epoch, accuracy in zip(frame["epoch"], frame["accuracy"], strict=True):
            if accuracy > best:
                best, found = accuracy, (result.config, int(epoch))
    return found


def epoch_of(result):
    frame = result.metrics_dataframe
    return int(frame.loc[frame["accuracy"].idxmax(), "epoch"])


@rejects("best_config")
def takes_the_last_reports(results):
    best = results.get_best_result()
    return best.config, epoch_of(best)


@rejects("best_config")
def takes_the_best_mean(results):
    best = results.get_best_result(scope="avg")
    return best.config, epoch_of(best)


@rejects("best_config")
def the_epoch_in_which_it_ended(results):
    best = results.get_best_result(scope="all")
    return best.config, best.metrics["epoch"]


@rejects("best_config")
def counts_epochs_from_zero(results):
    best = results.get_best_result(scope="all")
    return best.config, int(best.metrics_dataframe["accuracy"].idxmax())


@rejects("best_config", says="but the epoch")
def takes_the_number_of_the_row_for_the_epoch(results):
    best = results.get_best_result(scope="all")
    return best.config, int(best.metrics_dataframe["accuracy"].idxmax()) + 1


@rejects("best_config")
def only_the_config(results):
    return results.get_best_result(scope="all").config


@rejects("best_config")
def does_not_expect_a_dead_trial(results):
    best = max(results, key=lambda result: result.metrics_dataframe["accuracy"].max())
    return best.config, epoch_of(best)


@accepts("best_config")
def from_its_checkpoints(results):
    best = results.get_best_result("accuracy", "max", "all")
    _, metrics = max(best.best_checkpoints, key=lambda pair: pair[1]["accuracy"])
    return best.config, metrics["epoch"]


@accepts("best_config")
def from_the_dataframe(results):
    frame = results.get_dataframe(filter_metric="accuracy", filter_mode="max")
    row = frame.loc[frame["accuracy"].idxmax()]
    names = [name for name in frame.columns if name.startswith("config/")]
    return {name.removeprefix("config/"): row[name] for name in names}, row["epoch"]


# replay_asha: ASHA's rule, played over recorded curves


def replayed(curves, order, rungs, bar=lambda earlier: np.percentile(earlier, 200 / 3), keep=lambda stops: True):
    """The right rule; the samples change a part of it. Return the epochs of each trial, and the accuracies that were seen."""
    reached, trained, seen = {rung: [] for rung in rungs}, [], []
    for number in order:
        for epoch, accuracy in enumerate(curves[number], 1):
            seen.append(accuracy)
            if epoch not in reached:
                continue
            stops = len(reached[epoch]) > 0 and accuracy < bar(reached[epoch])
            if keep(stops):
                reached[epoch].append(accuracy)
            if stops:
                break
        trained.append(epoch)
    return trained, seen


@accepts("replay_asha")
def with_a_stretch_for_each_rung(curves, order, rungs):
    came = [(number, list(curves[number])) for number in order]
    history = {}
    pieces = []
    for _, curve in came:
        stop = len(curve)
        for rung in sorted(rungs):
            if rung > len(curve):
                break
            others = np.array(history.get(rung, []))
            history[rung] = [*others, curve[rung - 1]]
            if others.size and curve[rung - 1] < np.percentile(others, 66 + 2 / 3):
                stop = rung
                break
        pieces.append(curve[:stop])
    return np.sum([len(piece) for piece in pieces]), np.max(np.concatenate(pieces))


@accepts("replay_asha")
def as_a_list(curves, order, rungs):
    trained, seen = replayed(curves, order, rungs)
    return [sum(trained), max(seen)]


@rejects("replay_asha", says="if the first trial to reach a rung stops there")
def an_alias_of_the_list_is_true_after_the_append(curves, order, rungs):
    reached, epochs, best = {rung: [] for rung in rungs}, 0, 0.0
    for number in order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            if epoch in reached:
                earlier = reached[epoch]
                stop = earlier and accuracy < np.percentile(earlier, 200 / 3)
                earlier.append(accuracy)
                if stop:
                    break
    return epochs, best


@rejects("replay_asha", says="forgets the trials that stop")
def forgets_the_trials_that_stopped(curves, order, rungs):
    trained, seen = replayed(curves, order, rungs, keep=lambda stops: not stops)
    return sum(trained), max(seen)


@rejects("replay_asha", says="in the order of `curves`")
def ignores_the_order(curves, order, rungs):
    trained, seen = replayed(curves, range(len(curves)), rungs)
    return sum(trained), max(seen)


@rejects("replay_asha", says="The best accuracy that ASHA sees isn't")
def the_best_of_the_whole_grid(curves, order, rungs):
    trained, _ = replayed(curves, order, rungs)
    return sum(trained), max(map(max, curves))


@rejects("replay_asha", says="the best of the trials' last accuracies")
def the_best_of_the_last_accuracies(curves, order, rungs):
    trained, _ = replayed(curves, order, rungs)
    return sum(trained), max(curves[number][epochs - 1] for number, epochs in zip(order, trained, strict=True))


@rejects("replay_asha", says="a trial exactly at the bar stops")
def stops_at_the_bar(curves, order, rungs):
    reached, epochs, best = {rung: [] for rung in rungs}, 0, 0.0
    for number in order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            earlier = list(reached.get(epoch, []))
            if epoch in reached:
                reached[epoch].append(accuracy)
            if earlier and accuracy <= np.percentile(earlier, 200 / 3):
                break
    return epochs, best


@accepts("replay_asha")
def by_quantile(curves, order, rungs):
    trained, seen = replayed(curves, order, rungs, bar=lambda earlier: np.quantile(earlier, 2 / 3))
    return {"epochs": sum(trained), "best": max(seen)}.values()


@rejects("replay_asha", says="the best of the earlier")
def the_bar_is_the_best_so_far(curves, order, rungs):
    trained, seen = replayed(curves, order, rungs, bar=max)
    return sum(trained), max(seen)


@rejects("replay_asha", says="You counted")
def compares_one_epoch_late(curves, order, rungs):
    trained, seen = replayed(curves, order, [rung + 1 for rung in rungs])
    return sum(trained), max(seen)


@rejects("replay_asha")
def does_not_expect_an_empty_rung(curves, order, rungs):
    reached, epochs, best = {rung: [] for rung in rungs}, 0, 0.0
    for number in order:
        for epoch, accuracy in enumerate(curves[number], 1):
            epochs, best = epochs + 1, max(best, accuracy)
            if epoch in reached and accuracy < np.percentile(reached[epoch], 200 / 3):
                break
    return epochs, best


# tune_ppo: rates as a grid, and no runners beside the trial


def ppo_tuner(
    config,
    iterations,
    folder,
    callbacks,
    stop=True,
    metric="env_runners/episode_return_mean",
    trainable="PPO",
    at_once=None,
    reuse=False,
):
    return tune.Tuner(
        trainable,
        param_space=config,
        tune_config=tune.TuneConfig(metric=metric, mode="max", max_concurrent_trials=at_once, reuse_actors=reuse),
        run_config=tune.RunConfig(
            storage_path=folder,
            callbacks=callbacks,
            verbose=0,
            stop={"training_iteration": iterations} if stop else None,
        ),
    )


@accepts("tune_ppo")
def sets_attributes(config, rates, iterations, folder, callbacks=None):
    config = config.copy(copy_frozen=False)
    config.num_env_runners, config.lr = 0, tune.grid_search(list(rates))
    return ppo_tuner(config, iterations, folder, callbacks)


@accepts("tune_ppo", long=True)
def three_processes_share_a_cpu(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_cpus_per_env_runner=0.25).learners(num_cpus_per_learner=0.5)
    config.resources(num_cpus_for_main_process=0.5).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks)


@accepts("tune_ppo", long=True)
def from_the_class_and_a_dictionary(config, rates, iterations, folder, callbacks=None):
    space = config.env_runners(num_env_runners=0).to_dict() | {"lr": tune.grid_search(rates)}
    return tune.Tuner(
        PPO,
        param_space=space,
        tune_config=tune.TuneConfig(metric="env_runners/episode_return_mean", mode="max"),
        run_config=tune.RunConfig(
            storage_path=folder, callbacks=callbacks, stop=lambda _, result: result["training_iteration"] >= iterations
        ),
    )


@rejects("tune_ppo", says="requests 1.5 CPUs")
def forgets_the_cpu_of_the_learner(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_cpus_per_env_runner=0.25).training(lr=tune.grid_search(rates))
    return ppo_tuner(config.resources(num_cpus_for_main_process=0.5), iterations, folder, callbacks)


@rejects("tune_ppo", says="as the schedule of one run")
def a_list_without_grid_search(config, rates, iterations, folder, callbacks=None):
    return ppo_tuner(config.env_runners(num_env_runners=0).training(lr=rates), iterations, folder, callbacks)


@rejects("tune_ppo", says="by its whole path")
def the_short_name_of_the_return(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks, metric="episode_return_mean")


@rejects("tune_ppo", says="called fit()")
def fits_it_already_too(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks).fit()


@rejects("tune_ppo")
def leaves_two_runners(config, rates, iterations, folder, callbacks=None):
    return ppo_tuner(config.training(lr=tune.grid_search(rates)), iterations, folder, callbacks)


@rejects("tune_ppo")
def asks_for_less_than_its_runners_need(config, rates, iterations, folder, callbacks=None):
    small = tune.with_resources(PPO, {"cpu": 1})
    return ppo_tuner(config.training(lr=tune.grid_search(rates)), iterations, folder, callbacks, trainable=small)


@rejects("tune_ppo", says="requests 2 CPUs")
def one_runner_beside_it(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=1).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks)


@accepts("tune_ppo", long=True)
def two_at_a_time(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks, at_once=2)


@accepts("tune_ppo", long=True)
def with_a_stopper(config, rates, iterations, folder, callbacks=None):
    space = config.training(lr=tune.grid_search([*rates])).env_runners(num_env_runners=0)
    run = tune.RunConfig(storage_path=folder, callbacks=callbacks, stop=MaximumIterationStopper(iterations))
    best = tune.TuneConfig(metric="env_runners/episode_return_mean", mode="max")
    return tune.Tuner(PPO, param_space=space, tune_config=best, run_config=run)


@rejects("tune_ppo", says="ends as ERROR")
def reuses_actors_as_the_tuner_does(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks, reuse=True)


@rejects("tune_ppo", says="don't start from the `config`")
def makes_a_config_of_its_own(config, rates, iterations, folder, callbacks=None):
    own = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    return ppo_tuner(own.training(lr=tune.grid_search(rates)), iterations, folder, callbacks)


@rejects("tune_ppo")
def one_after_the_other(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks, at_once=1)


@rejects("tune_ppo")
def forgets_the_rates(config, rates, iterations, folder, callbacks=None):
    return ppo_tuner(config.env_runners(num_env_runners=0), iterations, folder, callbacks)


@rejects("tune_ppo")
def a_folder_somewhere_else(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, f"{folder}/mine", callbacks)


@rejects("tune_ppo")
def no_end_to_a_trial(config, rates, iterations, folder, callbacks=None):
    config.env_runners(num_env_runners=0).training(lr=tune.grid_search(rates))
    return ppo_tuner(config, iterations, folder, callbacks, stop=False)
