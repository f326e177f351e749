-- wrk script: sends prepared requests in turn and prints one line of figures at the end.
-- Arguments after "--": method, content type ("-" for none), heads, then "paths" and a file with one path a line,
-- or "bodies", the path, and files that hold one body each ("lines" instead: a file with one body a line).
-- heads: "same" for all; "vary": a proxy's fields, with other values in each; "asgi": these and a field that keeps a
-- request off the fast path.
local requests, turn = {}, 0

local function hex(digits)
    local found = {}
    for i = 1, digits do found[i] = string.format("%x", math.random(0, 15)) end
    return table.concat(found)
end

local function headers_of(media, heads)
    local headers = {}
    if media ~= "-" then headers["Content-Type"] = media end
    if heads ~= "same" then
        headers["traceparent"] = "00-" .. hex(32) .. "-" .. hex(16) .. "-01"
        headers["X-Request-ID"] = hex(32)
        headers["X-Forwarded-For"] = string.format("198.%d.%d.%d", math.random(18, 19), math.random(0, 255), math.random(0, 255))
    end
    if heads == "asgi" then headers["Trailer"] = "none" end
    return headers
end

function init(args)
    local method, media, heads, kind = args[1], args[2], args[3], args[4]
    math.randomseed(7)
    local function add(path, body)
        requests[#requests + 1] = wrk.format(method, path, headers_of(media, heads), body)
    end
    if kind == "paths" then
        for path in io.lines(args[5]) do add(path) end
    elseif kind == "lines" then
        for body in io.lines(args[6]) do add(args[5], body) end
    else
        for i = 6, #args do
            local file = assert(io.open(args[i], "rb"))
            add(args[5], file:read("*a"))
            file:close()
        end
    end
end

function request()
    turn = turn % #requests + 1
    return requests[turn]
end

function done(summary, latency, _)
    local errors = summary.errors
    io.write(string.format("FIGURES %d %d %d %d %d\n", summary.requests, summary.duration,
        latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
