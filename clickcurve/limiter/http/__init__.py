"""The limiter for programs that answer HTTP requests.

middleware       limits in front of any ASGI application
dependency       limits for routes of FastAPI
routes           the decision service; json_shapes reads its questions and shows its decisions
headers          what an answer says of a limit, and the body of a refusal
address          the address of a caller, behind trusted proxies
admission        decisions about requests, also where a backend raises
"""
