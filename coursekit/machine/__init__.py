"""The machine's room: what it has, whether it is ready for the course, and JupyterLab started on it."""
