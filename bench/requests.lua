-- wrk script: sends the whole requests of a file in turn, and prints one line of figures at the end.
-- Each request stands behind a line with its length.
local requests, turn = {}, 0

function init(args)
    local file = assert(io.open(args[1], "rb"))
    for length in file:lines() do requests[#requests + 1] = file:read(tonumber(length)) end
    file:close()
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
