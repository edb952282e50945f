"""What the room brings: the page of results that are of several attributes."""

TREES = {"attributes": "association.page.of_association"}
