"""The learner's side of each chapter: functions and environments it hands out, and probes."""
