"""What chapter 6 says of clusters and jobs, held against the Ray that is pinned; the name of each test is the sentence."""

import uuid
from collections.abc import AsyncIterator, Iterator
from unittest.mock import Mock

import pytest
import requests
from click.testing import CliRunner
from ray.job_submission import JobStatus

from coursekit.given.ch06_cluster import command_lines
from coursekit.given.own_cluster import OwnCluster, cluster_here, stop


@pytest.mark.parametrize(("status", "exit_code"), [("SUCCEEDED", 0), ("FAILED", 1), ("STOPPED", 0)])
def test_ray_job_submit_exits_with_1_if_the_job_failed_and_with_0_even_if_it_was_stopped(
    status, exit_code, monkeypatch
):
    from ray.dashboard.modules.job import cli

    async def lines(job: str) -> AsyncIterator[str]:
        yield f"{job} prints\n"

    client = Mock(tail_job_logs=lines)
    client.submit_job.return_value, client.get_version.return_value = "a job", "4"
    client.get_job_info.return_value = Mock(status=JobStatus(status), message="")
    monkeypatch.setattr(cli, "_get_sdk_client", lambda *args, **kwargs: client)
    assert CliRunner().invoke(cli.submit, ["--", "true"]).exit_code == exit_code


def test_for_jobs_ray_address_takes_precedence_over_the_option(monkeypatch):
    from ray.dashboard.utils import get_address_for_submission_client

    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_ADDRESS", "http://variable:8265")
    assert get_address_for_submission_client("http://option:8265") == "http://variable:8265"


@pytest.mark.parametrize("field", ["working_dir", "py_modules"])
def test_a_single_tasks_runtime_environment_takes_no_local_folder(field, tmp_path):
    import ray
    from ray.runtime_env.runtime_env import _validate_no_local_paths

    environment = ray.runtime_env.RuntimeEnv(**{field: str(tmp_path) if field == "working_dir" else [str(tmp_path)]})
    with pytest.raises(ValueError, match="URI"):
        _validate_no_local_paths(environment)


def test_lines_of_workers_that_differ_only_in_words_with_numbers_count_as_one(monkeypatch):
    from ray._private import ray_logging

    monkeypatch.setattr(ray_logging, "RAY_DEDUP_LOGS", True)
    found = ray_logging.LogDeduplicator(5, None, None, _timesource=lambda: 0.0)
    batches = [{"ip": "a", "pid": pid, "is_err": False, "lines": [f"episode {pid} ended"]} for pid in (1, 2, 3)]
    printed = [line for batch in batches for each in found.deduplicate(batch) for line in each["lines"]]
    later = [line for each in found.flush() for line in each["lines"]]
    assert printed == ["episode 1 ended"]
    assert len(later) == 1
    assert "repeated 2x across cluster" in later[0]


def test_ray_client_keeps_a_driver_for_thirty_seconds_without_a_connection_and_lists_stop_at_a_hundred_rows():
    from ray._private import ray_constants
    from ray.util.state.common import DEFAULT_LIMIT

    assert ray_constants.DEFAULT_CLIENT_RECONNECT_GRACE_PERIOD == 30
    assert DEFAULT_LIMIT == 100


def test_ray_start_takes_ports_6379_8265_10001_and_52365_unless_told_otherwise():
    from ray._private import ray_constants
    from ray.scripts import scripts

    defaults = {option.name: option.default for option in scripts.start.params}
    assert ray_constants.DEFAULT_PORT == 6379
    assert defaults["dashboard_port"] == ray_constants.DEFAULT_DASHBOARD_PORT == 8265
    assert defaults["dashboard_agent_listen_port"] == ray_constants.DEFAULT_DASHBOARD_AGENT_LISTEN_PORT == 52365
    assert "10001" in next(option.help for option in scripts.start.params if option.name == "ray_client_server_port")


@pytest.fixture(scope="module")
def cluster() -> Iterator[OwnCluster]:
    yield cluster_here()
    stop()


@pytest.mark.slow
def test_only_the_raylets_own_command_line_mentions_it_and_most_others_mention_the_gcs(cluster):
    lines = [" ".join(words) for words in command_lines(cluster).values()]
    assert [line.split()[0].rpartition("/")[2] for line in lines if "raylet" in line.replace(cluster.folder, "")] == [
        "raylet"
    ]
    scripts = ("dashboard.py", "monitor.py", "log_monitor.py", "raylet/raylet")
    assert all("--gcs-address=" in line for line in lines if any(f"/{script}" in line for script in scripts))
    assert sum("monitor.py" in line for line in lines) == 2  # what `pkill -f monitor.py` finds: the log monitor as well


@pytest.mark.slow
def test_the_same_submission_id_again_is_refused_with_status_500(cluster):
    job = {"entrypoint": "true", "submission_id": f"twice-{uuid.uuid4().hex}"}
    replies = [requests.post(f"{cluster.dashboard}/api/jobs/", json=job, headers=cluster.bearer) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 500]
    assert "already exists" in replies[1].text


@pytest.mark.slow
def test_a_request_without_a_token_gets_401_and_one_with_a_wrong_token_403(cluster):
    url, wrong = f"{cluster.dashboard}/api/version", {"Authorization": "Bearer " + "0" * 64}
    assert [requests.get(url, headers=headers).status_code for headers in ({}, wrong)] == [401, 403]
