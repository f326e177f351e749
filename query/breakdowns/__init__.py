"""The answers about breakdowns: by which values a link's hits divide, one value along time, and visitors.

reader   a link's row of counts and its breakdown as of one moment: stored rows of all owners, and what is pending
rest     the hits that recorded nothing: which of them gave no value, and which came before a dimension was on
divide   the answers, pure: values with bounds, points of a value, days of visitors
text     how they are written, as JSON and CSV
queries  from parameters as they are written to the answer's bytes
"""
