-- Single sends of 200 bytes, none of which has the same head as another: a number that the server passes over.
local body = string.rep("x", 200)
local headers = { ["Content-Type"] = "application/octet-stream" }
local number = 0

function request()
    number = number + 1
    headers["X-Request-Id"] = string.format("%032x", number)
    return wrk.format("POST", nil, headers, body)
end
