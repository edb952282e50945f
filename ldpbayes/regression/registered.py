"""What the room brings: pages of regressions, and the figure of a population's subgroups."""

PAGES = {
    "ldpbayes.regression.predictor_maximum.OutcomeMaximum": ("an OutcomeMaximum", "regression.predictor_page.of_maximum"),
    "ldpbayes.regression.maximum.Maximum": ("a Maximum", "regression.page.of_maximum"),
}
TREES = {"predictor": "regression.predictor_page.of_posterior", "regression": "regression.page.of_regression"}
DENSITIES = {"predictor": "regression.predictor_questions.log_densities"}
ANSWERS = {"subgroups": "regression.page.of_subgroups"}
