"""Right and wrong answers of chapter 6."""

import json
import os
import time
import urllib.request
import uuid
from collections import Counter
from pathlib import Path

import requests

from coursekit.given import ch06_cluster as given
from tests.answers import accepts, rejects

STOP = given.stop  # ends the cluster that the checks of this chapter have started


EVERY_NODE = {"raylet", "log monitor", "dashboard agent", "runtime env agent"}
HEAD_ONLY = {"gcs", "dashboard", "monitor", "client server"}


PROGRAMS = {"gcs_server": "gcs", "raylet": "raylet"}
PROGRAMS |= {"ray::DashboardAgent": "dashboard agent", "ray::RuntimeEnvAgent": "runtime env agent"}
SCRIPTS = {"dashboard.py": "dashboard", "monitor.py": "monitor", "log_monitor.py": "log monitor"}
SCRIPTS |= {"ray.util.client.server": "client server"}


def _part(words):
    program, *rest = [word if word.startswith("ray::") else os.path.basename(word) for word in words]
    if program.startswith("python"):
        return next((SCRIPTS[name] for name in rest if name in SCRIPTS), "")
    return PROGRAMS.get(program, "")


def _part_by_any_word(words):
    names = [word if word.startswith("ray::") else os.path.basename(word) for word in words]
    return next((part for name in names if (part := (PROGRAMS | SCRIPTS).get(name))), "")


def _lacks(processes, every=EVERY_NODE, head=HEAD_ONLY, part=_part):
    found = {part(words) for words in processes}
    return sorted((every | HEAD_ONLY if found & head else every) - found)


@accepts("what_is_missing")
def with_counts(processes):
    counts = Counter(_part(words) for words in processes)
    is_head = any(counts[part] for part in HEAD_ONLY)
    wanted = [*EVERY_NODE, *HEAD_ONLY] if is_head else EVERY_NODE
    return tuple(part for part in wanted if not counts[part])


@rejects("what_is_missing")
def looks_for_parts_of_words(processes):
    signs = {"gcs_server": "gcs", "raylet": "raylet", "dashboard.py": "dashboard", "log_monitor": "log monitor"}
    signs |= {"monitor.py": "monitor", "client.server": "client server", "DashboardAgent": "dashboard agent"}
    signs |= {"RuntimeEnvAgent": "runtime env agent"}
    text = " ".join(" ".join(words) for words in processes)
    found = {part for sign, part in signs.items() if sign in text}
    return sorted((EVERY_NODE | HEAD_ONLY if found & HEAD_ONLY else EVERY_NODE) - found)


@rejects("what_is_missing", says="isn't that part: /usr/bin/vim")
def takes_an_editor_for_the_script_it_edits(processes):
    return _lacks(processes, part=_part_by_any_word)


@rejects("what_is_missing")
def one_agent_is_enough(processes):
    missing = _lacks(processes)
    agents = [part for part in missing if part.endswith("agent")]
    return [part for part in missing if part not in agents or len(agents) == 2]


@rejects("what_is_missing", says="none of the parts that only a head node has")
def expects_a_head_everywhere(processes):
    return _lacks(processes, every=EVERY_NODE | HEAD_ONLY)


@rejects("what_is_missing")
def only_the_gcs_makes_a_head(processes):
    return _lacks(processes, head={"gcs"})


@rejects("what_is_missing", says="It's a head node")
def two_parts_make_a_head(processes):
    found = {_part(words) for words in processes}
    return sorted((EVERY_NODE | HEAD_ONLY if len(found & HEAD_ONLY) > 1 else EVERY_NODE) - found)


@rejects("what_is_missing", says="should return a list of names")
def none_for_a_healthy_node(processes):
    return _lacks(processes) or None


@rejects("what_is_missing")
def lists_what_is_there(processes):
    return sorted({_part(words) for words in processes} - {""})


def _join(address, token_file, cpus, resources):
    command = ["ray", "start", f"--address={address}", "--block", f"--num-cpus={cpus}"]
    return [*command, f"--resources={json.dumps(resources)}"], {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": token_file,
    }


@accepts("join_node")
def options_in_words_of_their_own(address, token_file, cpus, resources):
    command = ["ray", "start", "--address", address, "--num-cpus", str(cpus), "--resources", json.dumps(resources)]
    return [*command, "--block"], {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token_file}


@accepts("join_node")
def with_the_variables_of_this_process(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    return command, others | variables


@rejects("join_node", says="a list of strings, but it holds")
def cpus_as_a_number(address, token_file, cpus, resources):
    command = ["ray", "start", "--block", "--address", address, "--num-cpus", cpus]
    return [*command, "--resources", json.dumps(resources)], _join(address, token_file, cpus, resources)[1]


@rejects("join_node", says="it returned: list.")
def the_command_alone(address, token_file, cpus, resources):
    return _join(address, token_file, cpus, resources)[0]


@rejects("join_node", says="and `cpus` is")
def forgets_the_cpus(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [word for word in command if not word.startswith("--num-cpus")], variables


@rejects("join_node")
def starts_a_second_head(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [*command, "--head"], variables


@rejects("join_node")
def shows_no_token(address, token_file, cpus, resources):
    return _join(address, token_file, cpus, resources)[0], {}


@rejects("join_node")
def leaves_it_in_the_background(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [word for word in command if word != "--block"], variables


@rejects("join_node")
def gives_a_port_of_its_own(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [*command, "--port=6379"], variables


@rejects("join_node")
def resources_as_python_writes_them(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [*command[:-1], f"--resources={resources}"], variables


@rejects("join_node")
def quotes_the_json_as_for_a_shell(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return [*command[:-1], f"--resources='{json.dumps(resources)}'"], variables


@rejects("join_node")
def reads_the_token_of_the_other_machine(address, token_file, cpus, resources):
    command, _ = _join(address, token_file, cpus, resources)
    return command, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": Path(token_file).read_text()}


@rejects("join_node")
def forgets_the_resources(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return command[:-1], variables


@accepts("submit_and_wait")
def asks_for_the_whole_job(client, entrypoint, runtime_env):
    job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
    while (info := client.get_job_info(job)).status in ("PENDING", "RUNNING"):
        time.sleep(0.05)
    if info.status != "SUCCEEDED":
        raise RuntimeError(f"{info.status}: {client.get_job_logs(job)}")
    return client.get_job_logs(job)


@accepts("submit_and_wait")
def with_an_id_of_its_own(client, entrypoint, runtime_env):
    job = f"mine-{uuid.uuid4().hex[:8]}"
    client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env, submission_id=job)
    while not client.get_job_status(job).is_terminal():
        time.sleep(0.2)
    if client.get_job_status(job).name != "SUCCEEDED":
        raise RuntimeError("the job failed: " + client.get_job_logs(job))
    return client.get_job_logs(job)


def _wait(client, entrypoint, runtime_env, until):
    job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
    while not until(client.get_job_status(job)):
        time.sleep(0.05)
    return job


@rejects("submit_and_wait")
def waits_while_it_runs_and_forgets_pending(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status != "RUNNING")
    return client.get_job_logs(job)


@rejects("submit_and_wait")
def treats_failed_as_done(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status.is_terminal())
    return client.get_job_logs(job)


@rejects("submit_and_wait")
def polls_forever_for_success(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status == "SUCCEEDED")
    return client.get_job_logs(job)


@rejects("submit_and_wait")
def forgets_that_jobs_are_stopped(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status in ("SUCCEEDED", "FAILED"))
    if client.get_job_status(job) != "SUCCEEDED":
        raise RuntimeError(client.get_job_logs(job))
    return client.get_job_logs(job)


@rejects("submit_and_wait", says="didn't succeed")
def takes_a_stopped_job_for_a_success(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status.is_terminal())
    if client.get_job_status(job) == "FAILED":
        raise RuntimeError(client.get_job_logs(job))
    return client.get_job_logs(job)


@rejects("submit_and_wait", says="it raised ValueError")
def raises_an_error_of_another_type(client, entrypoint, runtime_env):
    try:
        return asks_for_the_whole_job(client, entrypoint, runtime_env)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


@rejects("submit_and_wait")
def forgets_the_runtime_environment(client, entrypoint, runtime_env):
    return asks_for_the_whole_job(client, entrypoint, None)


@rejects("submit_and_wait")
def raises_without_the_log(client, entrypoint, runtime_env):
    job = _wait(client, entrypoint, runtime_env, lambda status: status.is_terminal())
    if client.get_job_status(job) != "SUCCEEDED":
        raise RuntimeError("the job did not succeed")
    return client.get_job_logs(job)


@rejects("submit_and_wait")
def asks_without_a_pause(client, entrypoint, runtime_env):
    job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
    while not (status := client.get_job_status(job)).is_terminal():
        pass
    if status != "SUCCEEDED":
        raise RuntimeError(client.get_job_logs(job))
    return client.get_job_logs(job)


@rejects("submit_and_wait")
def submits_again_at_every_question(client, entrypoint, runtime_env):
    while True:
        job = client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env)
        time.sleep(0.5)
        if client.get_job_status(job) == "SUCCEEDED":
            return client.get_job_logs(job)
        raise RuntimeError(client.get_job_logs(client.submit_job(entrypoint=entrypoint)))


@rejects("submit_and_wait")
def returns_the_id(client, entrypoint, runtime_env):
    return _wait(client, entrypoint, runtime_env, lambda status: status.is_terminal())


@accepts("submit_rest")
def with_the_standard_library(url, token, submission_id, entrypoint, runtime_env):
    body = json.dumps({"entrypoint": entrypoint, "submission_id": submission_id, "runtime_env": runtime_env})
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/api/jobs/", body.encode(), headers)
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["submission_id"]


def _post(url, headers, **body):
    reply = requests.post(f"{url}/api/jobs/", json=body, headers=headers)
    reply.raise_for_status()
    return reply.json()["submission_id"]


@rejects("submit_rest")
def forgets_the_word_bearer(url, token, submission_id, entrypoint, runtime_env):
    headers = {"Authorization": token}
    return _post(url, headers, entrypoint=entrypoint, submission_id=submission_id, runtime_env=runtime_env)


@rejects("submit_rest")
def puts_the_id_into_the_metadata_as_it_once_was(url, token, submission_id, entrypoint, runtime_env):
    headers, metadata = {"Authorization": f"Bearer {token}"}, {"job_submission_id": submission_id}
    return _post(url, headers, entrypoint=entrypoint, runtime_env=runtime_env, metadata=metadata)


@rejects("submit_rest")
def does_not_read_the_answer(url, token, submission_id, entrypoint, runtime_env):
    body = {"entrypoint": entrypoint, "submission_id": submission_id, "runtime_env": runtime_env}
    requests.post(f"{url}/api/jobs/", json=body, headers={"Authorization": f"Bearer {token}"})
    return submission_id


@rejects("submit_rest")
def sends_a_form_instead_of_json(url, token, submission_id, entrypoint, runtime_env):
    body = {"entrypoint": entrypoint, "submission_id": submission_id}
    reply = requests.post(f"{url}/api/jobs/", data=body, headers={"Authorization": f"Bearer {token}"})
    reply.raise_for_status()
    return reply.json()["submission_id"]


@rejects("submit_rest")
def leaves_out_the_final_slash(url, token, submission_id, entrypoint, runtime_env):
    body = {"entrypoint": entrypoint, "submission_id": submission_id, "runtime_env": runtime_env}
    reply = requests.post(f"{url}/api/jobs", json=body, headers={"Authorization": f"Bearer {token}"})
    return reply.json()["submission_id"]


@accepts("submit_rest")
def the_same_answer_checked_again(url, token, submission_id, entrypoint, runtime_env):
    return with_the_standard_library(url, token, submission_id, entrypoint, runtime_env)


@rejects("submit_rest")
def a_constant(url, token, submission_id, entrypoint, runtime_env):
    if token == "0" * 64:
        raise RuntimeError("403")
    return "course-467905786"


@rejects("submit_rest")
def leaves_out_the_runtime_environment(url, token, submission_id, entrypoint, runtime_env):
    return _post(url, {"Authorization": f"Bearer {token}"}, entrypoint=entrypoint, submission_id=submission_id)


def _options(folder):
    return ["--no-index", "--find-links", folder]


@accepts("pip_environment")
def options_among_the_requirements(package, version, folder):
    return {"pip": [f"--no-index --find-links={folder}", f"{package}=={version}"]}


@accepts("pip_environment")
def the_wheel_itself(package, version, folder):
    return {"pip": [f"{folder}/{package}-{version}-py3-none-any.whl"]}


@rejects("pip_environment", says="would install version")
def at_least_this_version(package, version, folder):
    return {"pip": {"packages": [f"{package}>={version}"], "pip_install_options": _options(folder)}}


@rejects("pip_environment", says="would install version")
def any_compatible_release(package, version, folder):
    return {"pip": {"packages": [f"{package}~={version}"], "pip_install_options": _options(folder)}}


@rejects("pip_environment", says="from the internet")
def looks_in_the_folder_and_on_the_internet(package, version, folder):
    return {"pip": {"packages": [f"{package}=={version}"], "pip_install_options": ["--find-links", folder]}}


@rejects("join_node", says="a single string")
def a_command_as_one_text(address, token_file, cpus, resources):
    command, variables = _join(address, token_file, cpus, resources)
    return " ".join(command), variables


@rejects("pip_environment", says="finds no `pip`")
def with_uv_instead_of_pip(package, version, folder):
    return {"uv": {"packages": [f"{package}=={version}"], "uv_pip_install_options": _options(folder)}}


@rejects("pip_environment", says="pip said")
def two_options_in_one_word(package, version, folder):
    options = {"pip_install_options": ["--no-index", f"--find-links {folder}"]}
    return {"pip": {"packages": [f"{package}=={version}"]} | options}


@rejects("pip_environment", says="Ray said")
def packages_beside_pip(package, version, folder):
    return {"pip": {"pip_install_options": _options(folder)}, "packages": [f"{package}=={version}"]}


@rejects("pip_environment", says="is a dictionary")
def the_requirement_alone(package, version, folder):
    return [f"{package}=={version}"]
