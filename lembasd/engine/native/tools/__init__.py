"""The tools, one module each. A tool never raises: what goes wrong is a result for the model."""
