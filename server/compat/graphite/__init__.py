"""Graphite's reading side, as Grafana's datasource and other clients of Graphite ask.

names      how links and their values are called in dotted names, and which of them a pattern means
moments    the times that `from` and `until` may hold
targets    the expressions of `target`, parsed
functions  what the functions of an expression do to series
series     counts along time, read for a name
routes     the requests
"""
