"""What the room brings: the page of a cross-check."""

PAGES = {"ldpbayes.crosschecking.compared.CrossCheck": ("a CrossCheck", "crosschecking.page.of_crosscheck")}
