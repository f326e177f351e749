"""Where a limiter's counts are kept; each backend keeps the promises of `clickcurve.limiter.backend`.

memory           in process; meters, bucket_series and memory_budget are its parts
redis            on Redis; redis_scripts encodes questions for its scripts (scripts/*.lua), and decodes their answers
memcached        on memcached; memcached_items, memcached_connection and packed_meters are its parts
threaded         a backend that blocks, lent to event loops
guard            what is decided when a backend does not answer; breaker says when it is asked again
"""
