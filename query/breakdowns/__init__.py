"""The answers about breakdowns: a link's hits by value, one value along time, and visitors.

reader      a link's row of counts and its breakdown as of one moment: stored rows of all owners, and what is pending
unrecorded  the hits that recorded no value: which of them gave none, and which came before a dimension was on
selection   which values a question means: one, several together, all but some
values      the answers, pure: values with bounds, points of a value, days of visitors
causes      why a total changed, by the values of each dimension, pure
queries     from parameters as they are written to answers
"""
