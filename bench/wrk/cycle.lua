-- Send, claim, ack: three requests a cycle. wrk tells a script nothing about connections, so the thread keeps the books:
-- every id that came back is acked next, every message that was sent is claimed next, and otherwise one is sent.
local path = string.gsub(wrk.path, "/messages/.*", "")
local queue = wrk.path
local send = nil
local claim = nil
local ids, owed, acked, empty = {}, 0, 0, 0

function init()
    send = wrk.format("POST", queue, { ["Content-Type"] = "application/octet-stream" }, string.rep("x", 200))
    claim = wrk.format("GET", queue)
end

function request()
    local id = table.remove(ids)
    if id then
        return wrk.format("DELETE", path .. "/messages/" .. id)
    end
    if owed > 0 then
        owed = owed - 1
        return claim
    end
    return send
end

function response(status, headers)
    if status == 201 then
        owed = owed + 1
    elseif status == 200 then
        table.insert(ids, headers["X-MQS-MESSAGE-ID"])
    elseif status == 204 then
        acked = acked + 1
    end
end
