"""Exercises that have moved: the learner's answer, attempts and points move with them.

To move or rename an exercise, add a line; when it moves again, the old line names the new place too.
"""

MOVED: dict[str, str] = {  # "ch05_faults/old_name": "ch06_cluster/new_name"
    "ch06_cluster/cluster_yaml": "ch24_deploy/cluster_yaml",
    "ch14_custom/Bridge": "ch23_self_play/Bridge",
    "ch14_custom/one_mind_alone": "ch23_self_play/one_mind_alone",
    "ch14_custom/two_minds": "ch23_self_play/two_minds",
    "ch19_operate/between_effect_and_checkpoint": "ch25_pipelines/between_effect_and_checkpoint",
    "ch19_operate/durable_pipeline": "ch25_pipelines/durable_pipeline",
}


def moved(chapter: str, name: str) -> tuple[str, str] | None:
    """Return the chapter and the name of an exercise that has moved, None for one that has not."""
    new_chapter, _, new_name = MOVED.get(f"{chapter}/{name}", "").partition("/")
    return (new_chapter, new_name) if new_name else None
