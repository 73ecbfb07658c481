"""The capstone: a policy learned within a budget of CPU seconds, judged from outside, on a leaderboard."""
