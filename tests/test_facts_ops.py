"""What chapters 16 to 19 say about the pinned Ray and PyTorch, and chapter 25 about locks, where no cell of theirs shows it."""

import fcntl
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from coursekit.basics.paths import ROOT
from coursekit.given.ch18_serve import Script


def default_of(function, name):
    return inspect.signature(function).parameters[name].default


# Chapter 16


def test_a_trainer_of_ray_train_is_no_trial():
    from ray import tune
    from ray.train.torch import TorchTrainer

    with pytest.raises(tune.TuneError, match="not string nor trainable"):
        tune.Tuner(TorchTrainer(print))


# Chapter 17


def test_report_copies_the_checkpoint_before_it_returns():
    import ray.train
    from ray.train import CheckpointUploadMode

    assert default_of(ray.train.report, "checkpoint_upload_mode") == CheckpointUploadMode.SYNC


def test_by_default_ray_train_allows_no_failure():
    from ray.train import FailureConfig

    assert FailureConfig().max_failures == 0


def test_by_default_one_batch_is_fetched_ahead():
    from ray.data import DataIterator

    assert default_of(DataIterator.iter_torch_batches, "prefetch_batches") == 1


def test_with_a_pool_ray_data_refuses_an_object_and_without_one_it_takes_it_for_a_function():
    from ray.data import ActorPoolStrategy, TaskPoolStrategy
    from ray.data._internal.util import get_compute_strategy

    class Stage:
        def __call__(self, batch):
            return batch

    with pytest.raises(ValueError, match="regular functions"):
        get_compute_strategy(Stage(), compute=ActorPoolStrategy(size=2))
    assert isinstance(get_compute_strategy(Stage()), TaskPoolStrategy)


def test_a_sort_a_shuffle_a_groupby_a_join_and_a_repartition_need_all_blocks():
    from ray.data._internal.execution.operators.hash_shuffle import HashShufflingOperatorBase
    from ray.data._internal.execution.operators.join import JoinOperator
    from ray.data._internal.logical.operators import all_to_all_operator as wide

    each = (wide.Sort, wide.RandomShuffle, wide.Aggregate, wide.Repartition)
    assert all(issubclass(one, wide.AbstractAllToAll) for one in each)
    assert issubclass(JoinOperator, HashShufflingOperatorBase)


def test_prepare_model_wraps_fsdp1_on_gpus_only_and_nothing_with_one_worker():
    from ray.train.v2.torch.train_loop_utils import prepare_model

    source = inspect.getsource(prepare_model)
    assert "import FullyShardedDataParallel" in source
    assert "FSDP is only available with GPU-enabled" in source
    assert "if parallel_strategy and world_size > 1:" in source


def test_ray_train_gives_every_worker_the_same_number_of_rows():
    from ray.train import DataConfig

    assert "streaming_split(\n                        world_size, equal=True" in inspect.getsource(DataConfig.configure)


def test_materialized_rows_reach_the_workers_of_ray_train_without_a_free_cpu():
    from ray.data._internal.execution.operators import output_splitter
    from ray.data._internal.iterator import stream_split_iterator

    assert '{"num_cpus": 0, "num_returns": 2}' in inspect.getsource(output_splitter)
    assert "@ray.remote(num_cpus=0)\nclass SplitCoordinator" in inspect.getsource(stream_split_iterator)


def test_ray_train_refuses_to_report_a_tensor():
    from ray.train.v2._internal.execution import context

    source = inspect.getsource(context)
    assert "if contains_tensor(metrics):\n                raise ValueError(" in source


def test_autocast_leaves_weights_and_gradients_in_float32():
    import torch

    layer = torch.nn.Linear(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        activations = layer(torch.ones(2, 4))
    activations.float().sum().backward()
    assert activations.dtype == torch.bfloat16
    assert layer.weight.dtype == layer.weight.grad.dtype == torch.float32


ALONE_AND_TOGETHER = """
import torch, ray.train
from torch.distributed import checkpoint as dcp
from torch.distributed.fsdp import fully_shard
from coursekit.given.ch17_data_train import rehearse
import numpy as np

def loop(config):
    import tempfile
    torch.manual_seed(0)
    model = fully_shard(torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if checkpoint := ray.train.get_checkpoint():
        state = {"model": model.state_dict()}
        with checkpoint.as_directory() as folder:
            if config["together"]:
                dcp.load(state, checkpoint_id=folder)
            else:
                state = torch.load(f"{folder}/rank0.pt")
        model.load_state_dict(state["model"])
    for epoch in range(2):
        for batch in ray.train.get_dataset_shard("train").iter_torch_batches(batch_size=2):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"]).backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            if config["together"]:
                dcp.save({"model": model.state_dict()}, checkpoint_id=folder)
            elif ray.train.get_context().get_world_rank() == 0:
                torch.save({"model": model.state_dict()}, f"{folder}/rank0.pt")
            ray.train.report({"epoch": epoch}, ray.train.Checkpoint.from_directory(folder))

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    rows = {"row": np.arange(8), "image": rng.normal(size=(8, 64)).astype(np.float32), "label": np.arange(8)}
    for together in (False, True):
        first, second = rehearse(loop, rows, {"together": together}, kill=(1, 3))
        for rank in (0, 1):
            _, saved, *_ = [e[1] for e in first["logs"][rank] if e[0] == "step"]  # two steps per epoch; the third kills
            begin = next(e[1] for e in second["logs"][rank] if e[0] == "before")
            print(together, rank, saved.size, bool(np.array_equal(saved, begin)))
"""


@pytest.mark.slow
def test_what_worker_0_saves_alone_is_only_its_shard_and_what_all_save_is_everything(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(ALONE_AND_TOGETHER)
    done = subprocess.run([sys.executable, program], cwd=ROOT, capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(("True", "False"))]
    assert lines == [
        ["False", "0", "325", "True"],
        ["False", "1", "325", "False"],  # it got worker 0's rows, without an error
        ["True", "0", "325", "True"],
        ["True", "1", "325", "True"],
    ], done.stderr[-500:]


def test_tensorflow_and_jax_have_trainers_and_that_of_jax_is_alpha():
    assert find_spec("ray.train.tensorflow")
    spec = find_spec("ray.train.v2.jax.jax_trainer")
    with open(spec.origin) as file:
        assert '@PublicAPI(stability="alpha")\nclass JaxTrainer' in file.read()


# Chapter 18


def test_serve_answers_408_when_its_own_time_limit_is_over():
    from ray.serve._private.http_util import get_http_response_status

    assert get_http_response_status(TimeoutError(), 1.0, "a").code == 408


def test_serve_answers_503_or_429_when_its_queue_is_full_and_says_when_to_return_only_if_told_to():
    from ray.serve.config import BackpressureConfig

    assert BackpressureConfig().status_code == 503
    assert BackpressureConfig().retry_after_s is None
    assert BackpressureConfig(status_code=429, retry_after_s=5).status_code == 429
    with pytest.raises(ValueError, match="status_code"):
        BackpressureConfig(status_code=500)


def test_a_replica_takes_five_requests_and_is_looked_at_every_ten_seconds():
    from ray.serve._private.config import DeploymentConfig

    assert DeploymentConfig().max_ongoing_requests == 5
    assert DeploymentConfig().health_check_period_s == 10
    assert DeploymentConfig().max_queued_requests == -1  # no limit
    assert DeploymentConfig().max_surge_percent == 0  # an old replica stops before its successor starts


def test_the_proxy_pauses_up_to_half_a_second_before_it_asks_for_room_again():
    from ray.serve._private.constants import RAY_SERVE_ROUTER_RETRY_MAX_BACKOFF_S

    assert RAY_SERVE_ROUTER_RETRY_MAX_BACKOFF_S == 0.5


def test_a_constructor_that_raises_is_tried_three_times_for_each_replica_and_an_update_takes_a_fifth_at_a_time():
    from ray.serve._private.constants import DEFAULT_ROLLING_UPDATE_PERCENTAGE, MAX_PER_REPLICA_RETRY_COUNT

    assert MAX_PER_REPLICA_RETRY_COUNT == 3
    assert DEFAULT_ROLLING_UPDATE_PERCENTAGE == 0.2


def test_autoscaling_looks_back_30_s_and_waits_30_s_to_add_and_ten_minutes_to_remove_a_replica():
    from ray.serve.config import AutoscalingConfig

    config = AutoscalingConfig()
    assert (config.look_back_period_s, config.upscale_delay_s, config.downscale_delay_s) == (30, 30, 600)


def test_an_old_option_of_autoscaling_is_ignored_without_a_word():
    from ray.serve.config import AutoscalingConfig

    config = AutoscalingConfig(target_num_ongoing_requests_per_replica=77)
    assert config.target_ongoing_requests != 77


def test_an_old_replica_gets_20_s_to_finish_the_requests_it_has_accepted():
    from ray.serve._private.config import DeploymentConfig

    assert DeploymentConfig().graceful_shutdown_timeout_s == 20


def test_the_proxy_considers_replicas_on_its_node_then_in_its_zone_then_all_of_them():
    from ray.serve._private.constants import (
        RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING,
        RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING,
    )
    from ray.serve._private.request_router.request_router import LocalityMixin, LocalityScope

    near = {LocalityScope.NODE: {"a"}, LocalityScope.AVAILABILITY_ZONE: {"a", "b"}}
    router = SimpleNamespace(
        _prefer_local_node_routing=RAY_SERVE_PROXY_PREFER_LOCAL_NODE_ROUTING,
        _prefer_local_az_routing=RAY_SERVE_PROXY_PREFER_LOCAL_AZ_ROUTING,
        _colocated_replica_ids=near,
        _replica_id_set={"a", "b", "c"},
    )
    request = SimpleNamespace(routing_context=SimpleNamespace(tried_same_node=False, tried_same_az=False))
    groups = [LocalityMixin.apply_locality_routing(router, request) for _ in range(3)]
    assert groups == [{"a"}, {"a", "b"}, {"a", "b", "c"}]


def test_a_replica_with_a_gpu_also_requests_a_whole_cpu():
    from ray.serve._private.config import ReplicaConfig

    options = ReplicaConfig.create(dict, ray_actor_options={"num_gpus": 1}).ray_actor_options
    assert (options["num_gpus"], options["num_cpus"]) == (1, 1)


def test_a_connection_that_breaks_in_the_middle_of_an_answer_is_no_connection_error():
    cut = requests.exceptions.ChunkedEncodingError
    assert issubclass(cut, requests.RequestException)
    assert not issubclass(cut, requests.ConnectionError)
    with Script(["cut", "drop"], {"action": 1}) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        for error in cut, requests.ConnectionError:
            with pytest.raises(error):
                requests.post(url, json={}, timeout=20)
        assert requests.post(url, json={}, timeout=20).json() == {"action": 1}
        server.shutdown()


def test_serve_llm_has_the_names_that_chapter_18_shows():
    """Its classes need vLLM to be imported, so their source is read."""
    package = Path(find_spec("ray").origin).parent
    builders = (package / "serve/llm/__init__.py").read_text()
    settings = (package / "llm/_internal/serve/core/configs/llm_config.py").read_text()
    assert "def build_openai_app(" in builders
    assert "class LLMConfig(" in builders
    for name in ("model_loading_config", "deployment_config", "engine_kwargs", "model_id", "model_source"):
        assert f"\n    {name}: " in settings
    assert "/v1/chat/completions" in (package / "llm/_internal/serve/core/ingress/ingress.py").read_text()
    assert "vllm[audio]" in " ".join(metadata.requires("ray") or [])


def test_every_node_that_has_a_replica_has_a_proxy():
    from ray.serve.config import ProxyLocation

    assert "every node in the cluster that has at least one" in " ".join(ProxyLocation.__doc__.split())


# Chapter 19

SETTINGS = """
import os
from coursekit import begin
import ray
from ray.util.state import list_tasks

os.environ |= {"RAY_metrics_report_interval_ms": "1234", "RAY_record_ref_creation_sites": "1"}
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)

def settings():
    from ray._raylet import Config
    return Config.metrics_report_interval_ms(), Config.record_ref_creation_sites()

print("here and there:", settings(), ray.get(ray.remote(settings).remote()))
"""


@pytest.mark.slow
def test_variables_set_before_ray_starts_reach_the_notebook_and_the_workers():
    done = subprocess.run([sys.executable, "-c", SETTINGS], cwd=ROOT, capture_output=True, text=True)
    assert "here and there: (1234, True) (1234, True)" in done.stdout, done.stderr[-500:]


@pytest.mark.parametrize(
    ("chapter", "name"),
    [("ch05_faults", "_system_config"), ("ch18_serve", "run_many"), ("ch19_operate", "_system_config")],
)
def test_a_chapter_does_not_show_what_ray_keeps_for_developers_and_tests(chapter, name):
    assert name not in (ROOT / f"chapters/{chapter}.py").read_text()


def test_without_a_limit_the_state_api_lists_a_hundred():
    from ray.util.state.common import DEFAULT_LIMIT

    assert DEFAULT_LIMIT == 100


def test_ray_stack_calls_sudo():
    from ray.scripts import scripts

    assert "sudo" in inspect.getsource(scripts)


def test_a_task_may_also_be_pending_while_its_arguments_are_fetched_or_a_store_has_no_room():
    from ray.core.generated.common_pb2 import TaskStatus

    pending = {name for name in TaskStatus.keys() if name.startswith("PENDING")}  # noqa: SIM118
    assert pending == {
        "PENDING_ARGS_AVAIL",
        "PENDING_ARGS_FETCH",
        "PENDING_NODE_ASSIGNMENT",
        "PENDING_OBJ_STORE_MEM_AVAIL",
        "PENDING_ACTOR_TASK_ARGS_FETCH",
        "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY",
    }


def test_the_metric_of_a_worker_keeps_the_worker_and_the_count_of_tasks_does_not():
    from ray._private.telemetry.metric_cardinality import MetricCardinality

    assert MetricCardinality.get_high_cardinality_labels_to_drop("learned_fragments") == []
    assert MetricCardinality.get_high_cardinality_labels_to_drop("tasks") == ["WorkerId"]


def test_by_default_metrics_are_reported_every_ten_seconds_and_no_line_is_recorded():
    from ray._raylet import Config

    assert Config.metrics_report_interval_ms() == 10_000
    assert not Config.record_ref_creation_sites()


def test_of_several_rays_the_tools_take_the_one_that_ray_start_wrote_down_or_none(monkeypatch):
    from ray._private import services

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "find_gcs_addresses", lambda: {"10.0.0.1:6379", "10.0.0.2:6379"})
    monkeypatch.setattr(services, "find_bootstrap_address", lambda _: "10.0.0.2:6379")
    assert services.canonicalize_bootstrap_address_or_die(None) == "10.0.0.2:6379"
    monkeypatch.setattr(services, "find_bootstrap_address", lambda _: None)
    with pytest.raises(ConnectionError, match="multiple active Ray"):
        services.canonicalize_bootstrap_address_or_die(None)


def test_without_debugpy_a_breakpoint_does_not_wait(monkeypatch):
    from ray.util import debugpy

    monkeypatch.setattr(debugpy, "_try_import_debugpy", lambda: None)
    assert debugpy.set_trace() is None


def test_by_default_py_spy_takes_a_hundred_samples_per_second():
    from coursekit.basics.paths import path_with_scripts

    command = ["py-spy", "record", "--help"]
    done = subprocess.run(command, env=os.environ | {"PATH": path_with_scripts()}, capture_output=True, text=True)
    assert re.search(r"--rate.*\n?.*default: 100", done.stdout)


# Chapter 25

HOLDS_A_LOCK = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


def test_a_process_that_hangs_keeps_its_lock_and_a_dead_one_does_not(tmp_path):
    path = tmp_path / "lock"
    with (
        subprocess.Popen([sys.executable, "-c", HOLDS_A_LOCK, path], stdout=subprocess.PIPE) as first,
        open(path, "a") as file,
    ):
        assert first.stdout is not None
        assert first.stdout.readline() == b"locked\n"
        first.send_signal(signal.SIGSTOP)
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        first.kill()
        first.wait()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
