"""What the room brings: the pages of plans and of a larger validation, and a setting of the first."""

PAGES = {"ldpbayes.planning.trials.ValidationStudy": ("a ValidationStudy", "planning.page.of_validation")}
LISTS = {"ldpbayes.planning.plans.Plan": "planning.page.of_plan"}
SETTINGS = {"kind": "planning.page.checked_kind"}
