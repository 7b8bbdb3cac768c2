"""`cdma estimate`: transfer times in closed form, as JSON or a table."""
