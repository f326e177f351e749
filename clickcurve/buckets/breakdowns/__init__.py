"""Breakdowns: a link's hits by attribute. Pure, like the whole engine.

breakdown   what a breakdown is; land, trim, fold, apply, merge
visitors    the visitors of a day: a set while its hours are kept, then a number
answers     what a breakdown says about a span: values with bounds, visitor-days
check       its laws, and that it records no more than the row of counts has
parts       a breakdown as a store keeps it, two parts of bytes; what a flush does with them
open_part, pieces, closed_part      those parts, byte by byte; bodies, vocabulary: what both are written with
columns     buckets of a closed part as they are read: summed without being made
"""
