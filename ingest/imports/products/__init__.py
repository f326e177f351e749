"""Other products' exports: each module reads what one product documents, into visits, buckets and totals.

takeover  what an export says, and how it becomes lines of history
tables    the files: CSV with a header, JSON, NDJSON, perhaps packed
shlink, yourls, kutt, bitly, goatcounter  one product each
"""
