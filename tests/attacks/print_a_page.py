"""Prints, returns and raises HTML and control characters, which are to run in the browser or terminal of a reader."""

SCORE = 1
REASON = ""
CELLS = {
    "first": """
text = "<script>document.title = 'left by an attack'</script><img src=x onerror=alert(1)>\\x1b]0;left\\x07\\x1b[2J"
print(text)
raise ValueError(text)
""",
    "best_seconds": "def best_seconds(tasks, seconds_each, workers):\n    return text",
}
