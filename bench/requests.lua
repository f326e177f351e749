-- wrk script: sends prepared requests in turn and prints one line of figures at the end.
-- Arguments after "--": method, content type ("-" for none), then "paths" and a file with one path a line,
-- or "bodies", the path, and files that hold one body each ("lines" instead: a file with one body a line).
local requests, turn = {}, 0

function init(args)
    local method, media, kind = args[1], args[2], args[3]
    local headers = {}
    if media ~= "-" then headers["Content-Type"] = media end
    if kind == "paths" then
        for path in io.lines(args[4]) do
            requests[#requests + 1] = wrk.format(method, path, headers)
        end
    elseif kind == "lines" then
        for body in io.lines(args[5]) do
            requests[#requests + 1] = wrk.format(method, args[4], headers, body)
        end
    else
        for i = 5, #args do
            local file = assert(io.open(args[i], "rb"))
            requests[#requests + 1] = wrk.format(method, args[4], headers, file:read("*a"))
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
