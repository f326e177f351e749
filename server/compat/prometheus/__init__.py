"""Prometheus: a page to scrape, and those expressions of PromQL that counts by bucket can answer exactly.

promql     the expressions that are understood, parsed
increases  what they select, and its hits at each moment
routes     the requests
"""
