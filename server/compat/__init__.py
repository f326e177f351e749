"""The doors: shapes that other programs expect, answered by the same queries and counted by the same owner.

Out: `graphite/`, `prometheus/`, `bitly`. All read, so POST needs the scope `read` there too.
"""
