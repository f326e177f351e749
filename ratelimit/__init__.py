"""The rate limiter: rules for events, decided all or nothing, on buckets that can tell what they counted.

rates            limits per time, and the grammar they are written in
rule             which callers share a limit, and how it is kept; what is refused at start
key              the name under which one caller is counted
decision         what is answered
tiered           sliding windows over buckets of seconds, minutes and hours: the arithmetic
fixed            windows of the clock, and windows that a hit opens
token_bucket     tokens in whole numbers
backend          what every backend promises, and the question that it gets
memory           the backend in process; meters, series and space are its parts
redis            the backends on Redis; scripted writes what its scripts (scripts/*.lua) read and reads what they answer
memcached        the backend on memcached; memcached_seats and memcached_connection are its parts
threaded         a backend that blocks, lent to event loops
failure          what is decided when a backend does not answer; breaker says when it is asked again
named            the arithmetic for backends that read and add many numbers at once
asking           questions made of events and features
limiter          the verbs, for threads
async_limiter    the verbs, for event loops
waiting          the line of those who wait for a place
blind            verbs that always get a decision, also where a backend raises
address          who calls: addresses, trusted proxies
headers          what an answer says of a limit, and the body of a refusal
middleware       limits in front of any ASGI application
dependency       limits for routes of FastAPI
wire             questions and decisions as JSON
routes           the decision service
trace, trial     what a rule would have done with lines of the past
history          what was asked and admitted, minute by minute, for whoever keeps it

No clock, no input or output but a backend's own.
"""
