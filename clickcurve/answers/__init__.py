"""What each answer holds, stated once: JSON, CSV, rows for tables, the schemas of /openapi.json and the page use it.

A field's name, place and type are those of the JSON. CSV has a line for each of an answer's `lines()`, under the names
in its COLUMNS.

counts      totals, curves, summaries, lists, now and the hours of a week
breakdowns  values, visitors, why a total changed
events      what came of clicks
written     JSON, CSV, problem documents
"""
