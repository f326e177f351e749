"""Where a limiter's counts are kept. Each module with a backend in it keeps the promises of `limiter.backend`.

memory           in process; meters, bucket_series and memory_budget are its parts
redis            on Redis; redis_scripts writes what its scripts (scripts/*.lua) read, and reads what they answer
memcached        on memcached; memcached_keys and memcached_connection are its parts
counters         the arithmetic for those that read and add many numbers at once
threaded         a backend that blocks, lent to event loops
guard            what is decided when a backend does not answer; breaker says when it is asked again
"""
