"""Other tools' routes: requests and answers in the shapes that other programs expect.

They are answered by the same queries as the program's own routes, and what they count goes the way of all hits.

graphite/, prometheus/, bitly   are read; a POST needs the scope `read` there, too
otlp, log_lines, statsd, syslog  count hits
expressions, forms, hit_sender  what several of them need
"""
