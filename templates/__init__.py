"""The Jinja2 templates of the generated C; data, rendered by collforge.generator.render."""
