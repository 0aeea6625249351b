-- Acks of the ids in a file, one on each line. Whoever comes to its end begins again, and is told so by the server.
local path = nil
local ids, next_id = {}, 0

function init(args)
    path = string.gsub(wrk.path, "[^/]*$", "")
    for id in io.lines(args[1]) do
        table.insert(ids, id)
    end
end

function request()
    next_id = next_id % #ids + 1
    return wrk.format("DELETE", path .. ids[next_id])
end
