"""`coursekit pack`: what it refuses, and what it says of a failed download."""

import subprocess

import pytest

from coursekit.basics.errors import CommandError
from coursekit.grading.desk import pack


def test_a_platform_without_wheels_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(CommandError, match="Windows runs the course in WSL"):
        pack.pack(tmp_path / "stick", ["windows"], ["3.11"])
    assert not (tmp_path / "stick").exists()


def test_a_folder_that_is_no_pack_is_left_alone(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(CommandError, match="is not empty"):
        pack.pack(tmp_path, ["macos-arm64"], ["3.11"])


def test_a_failed_download_names_the_package(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "noise\nERROR: No matching distribution found for ray==2.60.0")
    monkeypatch.setattr(pack.subprocess, "run", lambda *args, **more: failed)
    with pytest.raises(CommandError, match=r"macos-arm64, Python 3\.11 could not(.|\n)*found for ray==2\.60\.0"):
        pack._fetch(["ray==2.60.0"], tmp_path, "macos-arm64", "3.11.0")
