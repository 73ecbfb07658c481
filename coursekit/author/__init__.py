"""What an author uses: chapters become notebooks and slides, and a new chapter begins from the templates."""
