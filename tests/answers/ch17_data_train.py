"""Right and wrong answers of chapter 17."""

import os
import tempfile

import numpy as np
import ray
import ray.data
import ray.train
import torch
from ray.train.torch import prepare_model
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn.functional import cross_entropy

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


@accepts("Standardise")
class KeepsWhatItNeeds:
    def __init__(self, images):
        self.mean, self.std = np.mean(images, 0), np.std(images, 0)
        self.std[self.std == 0] = 1

    def __call__(self, batch):
        new = dict(batch)
        new["image"] = np.float32((batch["image"] - self.mean) / self.std)
        return new


@accepts("Standardise")
class WithPyTorchsDeviation:
    def __init__(self, images):
        self.std, self.mean = torch.std_mean(torch.tensor(images), dim=0)
        self.std[self.std == 0] = 1

    def __call__(self, batch):
        return {**batch, "image": (torch.tensor(batch["image"]) - self.mean) / self.std}


@accepts("Standardise")
class WithScikitLearn:
    def __init__(self, images):
        self.scaler = StandardScaler().fit(images)  # it, too, only centers a column that is the same everywhere

    def __call__(self, batch):
        return dict(batch, image=self.scaler.transform(batch["image"]).astype("float32"))


@rejects("Standardise", says="of the batch itself")
class TakesTheMeanOfTheBatch:
    def __init__(self, images):
        pass

    def __call__(self, batch):
        return KeepsWhatItNeeds(batch["image"])(batch)


@rejects("Standardise")
class DividesByZero:
    def __init__(self, images):
        self.mean, self.std = images.mean(0), images.std(0)

    def __call__(self, batch):
        return {**batch, "image": (batch["image"] - self.mean) / self.std}


@rejects("Standardise", says="of this one pixel")
class OneMeanForAllPixels(KeepsWhatItNeeds):
    def __init__(self, images):
        self.mean, self.std = images.mean(), images.std()


@rejects("Standardise")
class WritesIntoTheBatch(KeepsWhatItNeeds):
    def __call__(self, batch):
        batch["image"] -= self.mean
        batch["image"] /= self.std
        return batch


@rejects("Standardise", says="of type ndarray")
class ReturnsAnArray(KeepsWhatItNeeds):
    def __call__(self, batch):
        return super().__call__(batch)["image"]


@rejects("Standardise", says="lacks ['page']")
class ReturnsTheColumnsItKnows(KeepsWhatItNeeds):
    def __call__(self, batch):
        return {"row": batch["row"], "label": batch["label"], "image": super().__call__(batch)["image"]}


@rejects("Standardise")
class ReturnsFloat64(KeepsWhatItNeeds):
    def __call__(self, batch):
        return {**batch, "image": (batch["image"].astype(float) - self.mean) / self.std}


@rejects("Standardise")
class AddsALittleToTheDeviation(KeepsWhatItNeeds):
    def __init__(self, images):
        self.mean, self.std = images.mean(0), images.std(0) + 1e-6


@rejects("Standardise", says="came back as 0.")
class SetsConstantPixelsToZero(KeepsWhatItNeeds):
    def __init__(self, images):
        super().__init__(images)
        self.std[images.std(0) == 0] = np.inf


@accepts("pipeline")
def with_concurrency(ds, clean, stage, images, batch_size, actors):
    whole = ds.map_batches(clean)
    return whole.map_batches(stage, fn_constructor_args=[images], batch_size=batch_size, concurrency=actors)


@accepts("pipeline")
def with_keywords(ds, clean, stage, images, batch_size, actors):
    pool = ray.data.ActorPoolStrategy(min_size=actors, max_size=actors)
    return ds.map_batches(clean, batch_size=5).map_batches(
        stage, fn_constructor_kwargs={"images": images}, batch_size=batch_size, compute=pool, num_cpus=0.5
    )


@rejects("pipeline")
def runs_at_once(ds, clean, stage, images, batch_size, actors):
    return with_keywords(ds, clean, stage, images, batch_size, actors).materialize()


@rejects("pipeline")
def a_new_stage_for_every_batch(ds, clean, stage, images, batch_size, actors):
    return ds.map_batches(clean).map_batches(lambda batch: stage(images)(batch), batch_size=batch_size)


@rejects("pipeline")
def the_stage_before_the_cleaning(ds, clean, stage, images, batch_size, actors):
    pool = ray.data.ActorPoolStrategy(size=actors)
    return ds.map_batches(stage, fn_constructor_args=(images,), batch_size=batch_size, compute=pool).map_batches(clean)


@rejects("pipeline")
def no_comma_in_the_tuple(ds, clean, stage, images, batch_size, actors):
    pool = ray.data.ActorPoolStrategy(size=actors)
    return ds.map_batches(clean).map_batches(stage, fn_constructor_args=images, batch_size=batch_size, compute=pool)


@rejects("pipeline", says="created 2 times")
def two_actors_whatever_is_asked_for(ds, clean, stage, images, batch_size, actors):
    return with_keywords(ds, clean, stage, images, batch_size, 2)


@rejects("pipeline", says="aren't those that an object made by")
def a_stage_from_other_images(ds, clean, stage, images, batch_size, actors):
    return with_keywords(ds, clean, stage, np.zeros_like(images), batch_size, actors)


@rejects("pipeline")
def batches_as_they_come(ds, clean, stage, images, batch_size, actors):
    pool = ray.data.ActorPoolStrategy(size=actors)
    return ds.map_batches(clean).map_batches(stage, fn_constructor_args=(images,), compute=pool)


@rejects("pipeline")
def an_object_instead_of_the_class(ds, clean, stage, images, batch_size, actors):
    return ds.map_batches(clean).map_batches(stage(images), batch_size=batch_size)


@rejects("pipeline")
def returns_the_rows(ds, clean, stage, images, batch_size, actors):
    return ds.map_batches(clean).take_all()


def train(
    config,
    wrap=True,
    share=None,
    one_report=False,
    every_batch=False,
    drop_last=False,
    momentum=0.9,
    reduction="mean",
    clear=True,
    told=lambda losses: losses[-1],
    optimizer_first=False,
    seed=lambda config: config["seed"],
):
    """Train like the solution, with a mistake of one's choice."""
    torch.manual_seed(seed(config))
    model = nn.Linear(64, 10)
    weights = list(model.parameters())
    model = prepare_model(model) if wrap else model
    weights = weights if optimizer_first else model.parameters()
    optimizer = torch.optim.SGD(weights, lr=config["lr"], momentum=momentum)
    shard = ray.train.get_dataset_shard("train")
    rank, workers = ray.train.get_context().get_world_rank(), ray.train.get_context().get_world_size()
    for epoch in range(config["epochs"]):
        losses = []
        for batch in shard.iter_torch_batches(
            batch_size=config["batch_size"] // (share or workers), drop_last=drop_last
        ):
            loss = cross_entropy(model(batch["image"]), batch["label"], reduction=reduction)
            if clear:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if every_batch:
                ray.train.report({"epoch": epoch, "loss": loss.item()})
        if not every_batch and (rank == 0 or not one_report):
            ray.train.report({"epoch": epoch, "loss": told(losses)})


@accepts("train_loop", long=True)
def averages_the_gradients_by_hand(config):
    torch.manual_seed(config["seed"])
    context = ray.train.get_context()
    model, workers = nn.Linear(64, 10), context.get_world_size()
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    batches = ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=config["batch_size"] // workers)
    for epoch in range(config["epochs"]):  # each `for` over the batches is a new pass, as with Ray Data's
        losses = []
        for batch in batches:
            loss = cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            for weight in model.parameters():
                torch.distributed.all_reduce(weight.grad)
                weight.grad /= workers
            optimizer.step()
            losses.append(loss.item())
        ray.train.report({"epoch": epoch, "loss": sum(losses) / len(losses)})


@accepts("train_loop")
def keeps_its_batches_in_a_list(config):
    torch.manual_seed(config["seed"])
    model = prepare_model(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    part = config["batch_size"] // ray.train.get_context().get_world_size()
    batches = list(ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=part))
    for epoch in range(config["epochs"]):
        losses = []
        for batch in batches:
            loss = cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        ray.train.report({"epoch": epoch, "loss": mean(losses)})


@accepts("train_loop")
def converts_the_batches_and_reports_the_loss_of_both(config):
    torch.manual_seed(config["seed"])
    context, net = ray.train.get_context(), nn.Linear(64, 10)
    model, workers = prepare_model(net), context.get_world_size()
    optimizer = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=0.9)
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(config["epochs"]):
        total, count = torch.zeros(()), 0
        for batch in shard.iter_batches(batch_size=config["batch_size"] // workers):
            loss = cross_entropy(model(torch.as_tensor(batch["image"])), torch.as_tensor(batch["label"]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total, count = total + loss.detach(), count + workers
        torch.distributed.all_reduce(total)
        ray.train.report({"epoch": epoch, "loss": total.item() / count})


@rejects("train_loop", says="differ by up to")
def does_not_wrap_the_model(config):
    train(config, wrap=False)


@rejects("train_loop")
def takes_the_whole_batch_in_every_worker(config):
    train(config, share=1)


@rejects("train_loop", says="waited forever")
def only_worker_0_reports(config):
    train(config, one_report=True)


@rejects("train_loop")
def reports_every_batch(config):
    train(config, every_batch=True)


@rejects("train_loop")
def drops_the_last_batch(config):
    train(config, drop_last=True)


@rejects("train_loop", says="SGD without momentum")
def forgets_the_momentum(config):
    train(config, momentum=0.0)


@rejects("train_loop", says="In the end, a weight is")
def never_clears_the_gradients(config):
    train(config, told=mean, clear=False)


@rejects("train_loop", says="sum of an epoch's losses")
def reports_the_sum_of_the_losses(config):
    train(config, told=sum)


@rejects("train_loop", says="In the end, a weight is")
def adds_up_the_loss(config):
    train(config, reduction="sum")


@rejects("train_loop", says="last batch")
def reports_the_loss_of_the_last_batch(config):
    train(config)


@rejects("train_loop", says="should be numbers")
def reports_a_tensor(config):  # Ray Train refuses it
    train(config, told=lambda losses: torch.tensor(losses).mean())


def mean(losses):
    return float(np.mean(losses))


@accepts("train_loop")
def makes_the_optimizer_first(config):
    train(config, optimizer_first=True, told=mean)


@accepts("train_loop")
def reports_numbers_of_numpy(config):
    train(config, told=lambda losses: np.array(np.mean(losses, dtype=np.float32)))


@accepts("train_loop")
def another_seed_in_each_worker(config):  # harmless: DDP sends the weights of worker 0
    train(config, told=mean, seed=lambda config: config["seed"] + ray.train.get_context().get_world_rank())


@rejects("train_loop", says="With the same seed")
def forgets_the_seed(config):
    train(config, told=mean, seed=lambda config: np.random.default_rng().integers(10**9).item())


@rejects("train_loop", says='With another `config["seed"]`')
def a_seed_of_its_own(config):
    train(config, told=mean, seed=lambda config: 0)


@rejects("train_loop", says="A single worker used 8 rows")
def half_a_batch_whatever_the_workers(config):
    train(config, told=mean, share=2)


@rejects("train_loop", says="no attribute 'world_size'")
def asks_for_an_attribute(config):
    train(config, share=ray.train.get_context().world_size)


def last(
    config,
    keeps=("model", "optimizer"),
    loads=(0, 1),
    saves=lambda epoch, last: True,
    shift=1,
    late=False,
    wrapped=True,
    whole=False,
    name="model",
    file="state.pt",
    loss_of=lambda losses: {"loss": sum(losses) / len(losses)},
):
    """Train and save like the solution, with a mistake of one's choice."""
    torch.manual_seed(config["seed"])
    context, shard = ray.train.get_context(), ray.train.get_dataset_shard("train")
    model = prepare_model(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    parts, first = {name: model, "optimizer": optimizer}, 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint and context.get_world_rank() in loads:
        with checkpoint.as_directory() as folder:
            saved = torch.load(f"{folder}/{file}", weights_only=not whole)
        if whole:
            saved["model"] = {f"module.{key}": weight for key, weight in saved["model"].state_dict().items()}
        first = saved["epoch"] + shift if shift is not None else 0
        for part in keeps:
            parts[part].load_state_dict(saved[part])
    for epoch in range(first, config["epochs"]):
        early, losses = {key: _copy(part.state_dict()) for key, part in parts.items()}, []
        for batch in shard.iter_torch_batches(batch_size=config["batch_size"] // context.get_world_size()):
            loss = cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        state = early if late else {key: part.state_dict() for key, part in parts.items()}
        if not wrapped:
            state["model"] = model.module.state_dict()
        if whole:
            state["model"] = model.module
        _report({"epoch": epoch, **loss_of(losses)}, state, file, saves(epoch, config["epochs"] - 1))


def _copy(state):
    with tempfile.TemporaryFile() as file:
        torch.save(state, file)
        file.seek(0)
        return torch.load(file)


def _report(metrics, state, file, keep):
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = None
        if keep and ray.train.get_context().get_world_rank() == 0:
            torch.save({"epoch": metrics["epoch"], **state}, os.path.join(folder, file))
            checkpoint = ray.train.Checkpoint.from_directory(folder)
        ray.train.report(metrics, checkpoint=checkpoint)


@accepts("resume")
def loads_into_the_wrapped_model(config):
    last(config)


@accepts("resume")
def only_worker_0_loads_the_weights(config):  # before `prepare_model`, which sends them to the others
    torch.manual_seed(config["seed"])
    context, net, done = ray.train.get_context(), nn.Linear(64, 10), -1
    checkpoint = ray.train.get_checkpoint()
    state = torch.load(f"{checkpoint.to_directory()}/state.pt") if checkpoint else None
    if state and context.get_world_rank() == 0:
        net.load_state_dict(state["model"])
    model = prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    if state:
        optimizer.load_state_dict(state["optimizer"])
        done = state["epoch"]
    shard = ray.train.get_dataset_shard("train")
    for epoch in range(done + 1, config["epochs"]):
        losses = []
        for batch in shard.iter_torch_batches(batch_size=config["batch_size"] // context.get_world_size()):
            loss = cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        _report(
            {"epoch": epoch, "loss": mean(losses)},
            {"model": net.state_dict(), "optimizer": optimizer.state_dict()},
            "state.pt",
            True,
        )


@accepts("resume")
def every_worker_saves_the_next_epoch(config):
    torch.manual_seed(config["seed"])
    context, net, begin = ray.train.get_context(), nn.Linear(64, 10), 0
    optimizer = torch.optim.SGD(net.parameters(), lr=config["lr"], momentum=0.9)
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        state = torch.load(os.path.join(checkpoint.to_directory(), "state.pt"))
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optim"])
        begin = state["next"]
    model, shard = prepare_model(net), ray.train.get_dataset_shard("train")
    for epoch in range(begin, config["epochs"]):
        losses = []
        for batch in shard.iter_torch_batches(batch_size=config["batch_size"] // context.get_world_size()):
            loss = cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        folder = tempfile.mkdtemp()
        state = {"model": net.state_dict(), "optim": optimizer.state_dict(), "next": epoch + 1}
        torch.save(state, os.path.join(folder, "state.pt"))
        ray.train.report({"epoch": epoch, "loss": mean(losses)}, ray.train.Checkpoint.from_directory(folder))


@rejects("resume", says="2 checkpoints were reported")
def saves_every_other_epoch(config):
    last(config, saves=lambda epoch, last: epoch % 2 == 1)


@rejects("resume", says="holds the files ['model.pt']")
def saves_another_file(config):
    last(config, file="model.pt")


@rejects("resume", says="no checkpoint had been reported")
def saves_only_at_the_end(config):
    last(config, saves=lambda epoch, last: epoch == last)


@rejects("resume", says="zero again after the restart")
def forgets_the_optimizer(config):
    last(config, keeps=("model",))


@rejects("resume")
def forgets_the_weights(config):
    last(config, keeps=("optimizer",))


@rejects("resume", says="and [0, 1, 2, 3] after it")
def begins_again_at_epoch_0(config):
    last(config, shift=None)


@rejects("resume", says="and [1, 2, 3] after it")
def repeats_the_saved_epoch(config):
    last(config, shift=0)


@rejects("resume", says="Every worker must load")
def only_worker_0_loads(config):
    last(config, loads=(0,))


@rejects("resume")
def saves_what_was_there_before_the_epoch(config):
    last(config, late=True)


@rejects("resume")
def saves_the_inner_model_and_loads_the_wrapped_one(config):
    last(config, wrapped=False)


@rejects("resume", says='with the key "model"')
def saves_the_model_under_another_name(config):
    last(config, keeps=("weights", "optimizer"), name="weights")


@rejects("resume", says="save its `state_dict()`")
def saves_the_model_itself(config):
    last(config, whole=True)


@rejects("resume", says="should be numbers")
def reports_no_loss(config):
    last(config, loss_of=lambda losses: {})
