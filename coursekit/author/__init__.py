"""The author's room: chapters become notebooks and slides, and a new chapter begins from the templates."""
