"""What the room brings: pages, and the figure of a sensitivity beside the page of a fit."""

PAGES = {
    "ldpbayes.robust.crosschecking.CrossCheck": ("a CrossCheck", "robust.crosscheck_page.of_crosscheck"),
    "ldpbayes.robust.ignoring.Sensitivity": ("a Sensitivity", "robust.page.of_sensitivity"),
    "ldpbayes.robust.contamination.ContaminationHull": ("a ContaminationHull", "robust.page.of_contamination"),
}
FIGURES = {"sensitivity": "robust.page.beside_fit"}
