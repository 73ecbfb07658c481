"""What chapters 16 to 19 say about the pinned Ray and PyTorch, where no cell of theirs shows it."""

import inspect
import subprocess
import sys
from importlib.util import find_spec

import pytest

from coursekit.basics.paths import ROOT


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
