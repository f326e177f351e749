"""What runs inside Redis: `common.lua` stands in front of each of the others; `scripted` talks to them."""
