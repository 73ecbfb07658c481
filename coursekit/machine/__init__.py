"""The machine: what it has, whether it is ready for the course, the learner's copies, and JupyterLab started on them."""
