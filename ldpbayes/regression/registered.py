"""What the room brings: pages of regressions, and the figure of a population's subgroups."""

PAGES = {"ldpbayes.regression.maximum.Maximum": ("a Maximum", "regression.page.of_maximum")}
TREES = {"regression": "regression.page.of_regression"}
ANSWERS = {"subgroups": "regression.page.of_subgroups"}
