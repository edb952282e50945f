"""What the room brings: pages of regressions, and the figure of what they predict."""

PAGES = {
    "ldpbayes.regression.predictor_maximum.OutcomeMaximum": ("an OutcomeMaximum", "regression.predictor_page.of_maximum"),
    "ldpbayes.regression.maximum.Maximum": ("a Maximum", "regression.page.of_maximum"),
}
TREES = {"predictor": "regression.predictor_page.of_posterior", "regression": "regression.page.of_regression"}
ODDS = dict.fromkeys(("regression", "ldpbayes.regression.maximum.Maximum"), "regression.questions.odds_ratio")
DENSITIES = {"predictor": "regression.predictor_questions.log_densities"}
ANSWERS = {"predicted": "regression.page.of_predicted"}
