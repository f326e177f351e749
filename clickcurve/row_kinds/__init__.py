"""What kinds of rows a store holds: their stored keys, bytes and names. A new kind is a module and a line of the table.

kind       what each kind answers
counts     rows of counts, be they of hits or of what was called bots
breakdown  breakdowns, likewise
quarantine what an owner counted of rows that it cannot read
table      all kinds, and which of them a stored key names
names      what a row is called in sentences
"""
