"""What the room brings: protocols of several attributes, and the page of results that have them."""

PROTOCOLS = {
    "attributes": "ldpbayes.association.attributes",
    "fake_data": "ldpbayes.association.fake_data",
    "sampled_attribute": "ldpbayes.association.sampled_attribute",
}
TREES = {"attributes": "association.page.of_association"}
ODDS = {"attributes": "association.questions.odds_ratio"}
