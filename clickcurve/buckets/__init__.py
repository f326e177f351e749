"""The bucket engine: pure functions over rows of counts. No I/O and no clock; nothing else of ours is imported.

ladder  the tiers, and where one ends and the next begins on a day
cover   the fewest buckets that tile a span (what a sliding window counts)
row     what a row is; add, fold, apply, merge, next_due, check
ranges  what kept buckets say about a span: totals with bounds, counts between edges
codec   a row as bytes
errors  everything that Clickcurve raises on purpose
integers  varints, zigzag, columns: what codecs write with

breakdowns  how a link's hits divide by what they say, in a folder of its own
"""
