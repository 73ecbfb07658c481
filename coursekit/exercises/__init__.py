"""The judge's side of each chapter: points, hints, checks, expected values, quiz keys."""
