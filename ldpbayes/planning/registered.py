"""What the room brings: the page of plans, and a setting of it."""

LISTS = {"ldpbayes.planning.plans.Plan": "planning.page.of_plan"}
SETTINGS = {"kind": "planning.page.checked_kind"}
