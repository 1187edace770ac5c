"""Reply drafts: file, decide, claim, result, lapse, expire."""
