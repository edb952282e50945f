"""What the room brings: the page of private groups, and their files."""

PAGES = {"ldpbayes.private_groups.result.PrivateGroups": ("PrivateGroups", "private_groups.page.of_groups")}
HOLDERS = {"private groups": "ldpbayes.private_groups.result"}
