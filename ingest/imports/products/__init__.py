"""Other products' exports, as visits, buckets and totals.

products    which tables and answers each product documents, and what they say
tables      the files: CSV with a header, JSON, NDJSON, perhaps packed
attributes  what visits and hours say of their visitors
takeover    what was read, and how it becomes lines of history that count once
"""
