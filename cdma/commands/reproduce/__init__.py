"""`cdma reproduce`: the papers' claims, as JSON or tables."""
