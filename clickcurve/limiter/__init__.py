"""The rate limiter: rules for events, decided all or nothing, on buckets that can tell what they counted.

rates            limits per time, and the grammar they are written in
rule             which callers share a limit, and how it is kept; what is refused at start
key              the name under which one caller is counted
quota         how one key stands under one rule
decision         the one answer that the rules of an event give together
tiered           sliding windows over buckets of seconds, minutes and hours: the arithmetic
fixed            windows of the clock, and windows that a hit opens
token_bucket     tokens in whole numbers
backend          what every backend promises, and the question that it gets
backends/        where counts are kept: in process, on Redis, on memcached; and what is done when nobody answers there
asking           questions made of events and features
limiter          the verbs, for threads
async_limiter    the verbs, for event loops
waiting          the line of those who wait for a place
http/            middleware, a FastAPI dependency, the decision service, headers, addresses
trace, trial     what a rule would have done with lines of the past
history          what was asked and admitted, minute by minute, for whoever keeps it

No clock, no input or output but a backend's own.
"""
