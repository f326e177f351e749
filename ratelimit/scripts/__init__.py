"""What runs inside Redis: `common.lua` stands in front of each of the others; `ratelimit.scripted` talks to them."""
