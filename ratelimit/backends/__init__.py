"""Where a limiter's counts are kept. Each module with a backend in it keeps the promises of `ratelimit.backend`.

memory           in process; meters, series and space are its parts
redis            on Redis; scripted writes what its scripts (scripts/*.lua) read, and reads what they answer
memcached        on memcached; memcached_seats and memcached_connection are its parts
named            the arithmetic for those that read and add many numbers at once
threaded         a backend that blocks, lent to event loops
failure          what is decided when a backend does not answer; breaker says when it is asked again
"""
